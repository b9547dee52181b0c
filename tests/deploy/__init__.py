"""What deploy/ holds, run by the programs that it is for."""
