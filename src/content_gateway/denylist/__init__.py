"""What the operator does not serve: deny lists, read from files and asked before each answer."""
