"""The price table as the instance types of Karpenter's KWOK provider."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kwok.errors import LabError

__all__ = ["CAPACITY_TYPE", "ZONE", "architecture", "instance_types"]

ZONE, CAPACITY_TYPE = "eu-west-1a", "on-demand"
_PODS = 110
# The table has physical cores; each of these machines runs two Kubernetes CPUs on one.
_CPUS_PER_CORE = 2
_GRAVITON = re.compile(r"^[a-z]+[0-9]+g[a-z]*\.")


def architecture(instance_class: str) -> str:
    """By AWS's names: a g after the generation is a Graviton."""
    return "arm64" if _GRAVITON.match(instance_class) else "amd64"


def instance_types(table: Path, without: Collection[str] = ()) -> list[dict[str, Any]]:
    """What `--instance-types-file-path` reads, of every class in `table` but those `without`."""
    try:
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [_instance_type(row) for row in rows if row["instance_class"] not in without]
    except (OSError, KeyError, ValueError) as error:
        raise LabError(f"price table {str(table)!r} cannot be used: {error!r}") from error


def _instance_type(row: dict[str, str]) -> dict[str, Any]:
    requirements = {"karpenter.sh/capacity-type": CAPACITY_TYPE, "topology.kubernetes.io/zone": ZONE}
    return {
        "name": row["instance_class"],
        "architecture": architecture(row["instance_class"]),
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": f"{float(row['cores']) * _CPUS_PER_CORE:g}",
            "memory": f"{float(row['memory_gib']):g}Gi",
            "pods": str(_PODS),
            "ephemeral-storage": "20Gi",
        },
        "offerings": [
            {
                "Price": float(row["price_usd_per_hour"]),
                "Available": True,  # the provider sets it to true whatever is said here
                "Requirements": [
                    {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()
                ],
            }
        ],
    }
