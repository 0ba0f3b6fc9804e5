"""The price table as instance types for Karpenter's KWOK provider."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kwok.errors import LabError

__all__ = ["CAPACITY_TYPE", "ZONE", "architecture", "instance_type", "instance_types"]

ZONE, CAPACITY_TYPE = "eu-west-1a", "on-demand"
_PODS = 110
# The table has physical cores; on these machines a core has two Kubernetes CPUs.
_CPUS_PER_CORE = 2
_GRAVITON = re.compile(r"^[a-z]+[0-9]+g[a-z]*\.")


def architecture(instance_class: str) -> str:
    """From the AWS name: a g after the generation means Graviton."""
    return "arm64" if _GRAVITON.match(instance_class) else "amd64"


def instance_types(table: Path, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """The content of `--instance-types-file-path`: every class in `table` except `without`."""
    try:
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [_of_row(row) for row in rows if row["instance_class"] not in without]
    except (OSError, KeyError, ValueError) as error:
        raise LabError(f"price table {str(table)!r} cannot be used: {error!r}") from error


def _of_row(row: dict[str, str]) -> dict[str, Any]:
    return instance_type(
        row["instance_class"],
        float(row["cores"]) * _CPUS_PER_CORE,
        float(row["memory_gib"]),
        {(CAPACITY_TYPE, ZONE): float(row["price_usd_per_hour"])},
    )


def instance_type(
    name: str,
    cpus: float,
    memory_gib: float,
    prices: Mapping[tuple[str, str], float],
    **more_resources: str,
) -> dict[str, Any]:
    """One instance type; `prices` are per hour, by capacity type and zone, and define its offerings."""
    return {
        "name": name,
        "architecture": architecture(name),
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": f"{cpus:g}",
            "memory": f"{memory_gib:g}Gi",
            "pods": str(_PODS),
            "ephemeral-storage": "20Gi",
            **more_resources,
        },
        "offerings": [
            {
                "Price": price,
                "Available": True,  # the provider sets it to true anyway
                "Requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
                    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]},
                ],
            }
            for (capacity_type, zone), price in prices.items()
        ],
    }
