"""The same learner on real devices: durable memory, live streams, and Flower to connect them."""
