"""A whole Flower federation on one machine: certificates, keys, processes."""
