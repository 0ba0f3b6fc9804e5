"""Reads the target concurrency of functions from Prometheus (ComboFunc, section 5.1: Metrics Collector)."""

from combofunc.collector.reading import targets
from combofunc.collector.target import Asked, Target

__all__ = ["Asked", "Target", "targets"]
