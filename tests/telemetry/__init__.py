"""Tests of logs, request ids and numbers."""
