"""The scenes of the table of faults: each module has some rows of one kind."""
