"""Training runs on real tasks: data sets, tasks, runs on many cores, the paper's tables."""
