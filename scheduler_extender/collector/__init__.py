"""Target concurrency of functions, from Prometheus (ComboFunc, section 5.1: the Metrics Collector)."""

from scheduler_extender.collector.reading import targets
from scheduler_extender.collector.target import Asked, Target

__all__ = ["Asked", "Target", "targets"]
