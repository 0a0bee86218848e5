"""Headwater on Flower."""
