"""The learner: it takes the samples that the ledger lists, with the weights that it lists.
PyTorch."""
