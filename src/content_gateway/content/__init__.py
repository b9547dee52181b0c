"""The words of the domain: values that are frozen, already valid, and know no I/O."""
