"""The composition root: which parts there are and how they fit, as ordinary code."""
