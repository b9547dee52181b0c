"""Tests of `http/`: the HTTP API over real sockets."""
