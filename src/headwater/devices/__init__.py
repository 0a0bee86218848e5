"""The same learner on real devices: durable memory, streams, and Flower as the distributed engine."""
