"""The command line: the same objects as the server, for people and scripts."""
