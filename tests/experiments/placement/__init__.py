"""Tests of experiments/placement."""
