"""Who holds which sample, in which round, with what weight.

Bookkeeping over sample numbers, before any training: NumPy only.
"""
