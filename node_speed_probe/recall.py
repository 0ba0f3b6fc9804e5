"""What a new process knows about nodes from the NodeSpeeds that an earlier one published. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from node_speed_probe.estimator import own_mean_s
from node_speed_probe.model import ImagePull, Sample
from node_speed_probe.publication import Published
from node_speed_probe.settings import Settings

__all__ = ["Recalled", "recalled"]

Recalled = tuple[Sample, Sample | None, tuple[ImagePull, ...]]  # creations, resizes, pulls


def recalled(published: Mapping[str, Published], settings: Settings) -> dict[str, Recalled]:
    """By node. Its creations become one sample, with their number, their mean and the age of the last."""
    measured = {n: b for n, b in published.items() if b.samples > 0 and b.last_sample_s is not None}
    # Estimates are shrunk toward the median of the nodes, which that leaves where it is.
    prior_s = median(b.tau_create_s for b in measured.values()) if measured else 0.0
    found: dict[str, Recalled] = {}
    for node, before in published.items():
        creations = Sample(before.at_s, before.at_s, before.tau_create_s, containers=0)
        if node in measured and before.last_sample_s is not None:
            tau_s = own_mean_s(before.tau_create_s, before.samples, prior_s, settings)
            creations = Sample(before.last_sample_s - tau_s, before.last_sample_s, tau_s, before.samples)
        resize = None
        if before.tau_resize_s is not None:
            resize = Sample(before.at_s - before.tau_resize_s, before.at_s, before.tau_resize_s)
        found[node] = creations, resize, before.image_pulls
    return found
