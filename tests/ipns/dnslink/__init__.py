"""Tests of `ipns/sources/dnslink.py`."""
