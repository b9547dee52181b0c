"""Tests: each names a truth, and its docstring says it to a person."""
