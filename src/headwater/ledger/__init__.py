"""Who holds which sample, in which round, with what weight: bookkeeping over sample numbers. NumPy
only."""
