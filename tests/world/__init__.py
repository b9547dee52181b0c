"""The world outside, on this machine: real servers for tests, on loopback only.

One module per technology, each an async context manager that hands out a running
server and what a test wants to do with it. `make peers` installs the servers."""
