"""Tests of experiments/nodes."""
