"""Measures how fast each node creates containers, and publishes it as NodeSpeed objects."""
