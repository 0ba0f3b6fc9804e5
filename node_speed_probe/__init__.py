"""Measure how fast each node creates containers, and publish it as NodeSpeed objects."""
