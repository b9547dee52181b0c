"""Tests of files and directories, read block by block."""
