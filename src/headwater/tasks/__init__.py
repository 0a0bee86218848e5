"""The learning tasks: data, partition, model, arrivals."""
