"""What the operator does not serve: block lists, read from files and asked before each answer."""
