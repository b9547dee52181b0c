"""Tests of the HTTP API, over real sockets."""
