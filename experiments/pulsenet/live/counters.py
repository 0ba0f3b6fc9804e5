"""What placement and node agent count, from their metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from kwok.burst import plane
from kwok.burst.plane import Plane
from kwok.ports import get_text

__all__ = ["counters", "emergency_figures"]

_PLACEMENT, _AGENT = "surgekit_burst_placement", "surgekit_pulselet"


def counters(of: Plane) -> dict[str, float]:
    """By name and label; of both processes."""
    files = (
        of.lab.directory / "burst-placement.settings.yaml",
        of.lab.directory / plane.NODE / "pulselet.yaml",
    )
    found = {}
    for file in files:
        port = int(yaml.safe_load(file.read_text())["health_bind"].rpartition(":")[2])
        for family in text_string_to_metric_families(get_text(port, "/metrics")):
            for sample in family.samples:
                if sample.name.endswith(("_total", "_bucket", "_count", "_sum")):
                    labels = "/".join(value for _, value in sorted(sample.labels.items()))
                    found[f"{sample.name}/{labels}".rstrip("/")] = sample.value
    return found


def emergency_figures(first: Mapping[str, float], last: Mapping[str, float]) -> dict[str, Any]:
    """Between two readings: outcomes of requests, origins of instances, and how long starts took."""
    rose = {key: value - first.get(key, 0.0) for key, value in last.items()}

    def by_label(name: str) -> dict[str, int]:
        prefix = f"{name}/"
        return {key.removeprefix(prefix): int(n) for key, n in rose.items() if key.startswith(prefix) and n}

    return {
        "outcomes": by_label(f"{_PLACEMENT}_requests_total"),
        "origins": by_label(f"{_PLACEMENT}_starts_total"),
        "ended": by_label(f"{_PLACEMENT}_ended_total"),
        # Upper bounds of a histogram's buckets, in seconds: how many starts took no longer.
        "place_seconds": by_label(f"{_PLACEMENT}_seconds_bucket"),
        "place_mean_ms": _mean_ms(rose, f"{_PLACEMENT}_seconds"),
    }


def _mean_ms(rose: Mapping[str, float], name: str) -> float | None:
    count = rose.get(f"{name}_count", 0.0)
    return round(1000 * rose.get(f"{name}_sum", 0.0) / count, 2) if count else None
