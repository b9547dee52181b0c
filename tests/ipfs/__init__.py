"""Tests of the embedded pin store and the delegated router."""
