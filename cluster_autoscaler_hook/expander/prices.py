"""The price of a node of each group: from the catalogue by its instance class, else from a label on the node.

A missing price is never guessed. The class takes no part in a plan and is named in the reasons. Its group is
chosen only if no group with a price is offered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cluster_autoscaler_hook.catalogue import Catalogue
from cluster_autoscaler_hook.expander.model import Price, Template

__all__ = ["NO_CURRENCY", "Prices", "price_groups"]

NO_CURRENCY = "price units"
# Labels of spot nodes on the clouds; their price is listed as the class "<class>/spot".
_SPOT = {
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("karpenter.sh/capacity-type", "spot"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
}
# A node's CPUs and the catalogue's may differ by rounding, not by a hyperthread.
_CPU_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Prices:
    by_group: dict[str, Price]
    currency: str
    cpus_per_core: float
    # Why a group has no price, or a difference between catalogue and node.
    remarks: tuple[str, ...]
    # Since the catalogue in use was the content of its file; None without a catalogue.
    catalogue_age_s: float | None = None

    @property
    def ages_s(self) -> dict[str, float]:
        return {} if self.catalogue_age_s is None else {"catalogue": self.catalogue_age_s}


def price_groups(
    templates: Iterable[Template],
    catalogue: Catalogue | None,
    labels: Sequence[str],
    catalogue_age_s: float = 0.0,
) -> Prices:
    prices, remarks = {}, []
    for template in templates:
        price, said = _price(template, catalogue, labels)
        if price is not None:
            prices[template.group] = price
        remarks += [f"{template.group}: {remark}" for remark in said]
    if catalogue is None:
        return Prices(prices, NO_CURRENCY, 1.0, tuple(remarks))
    return Prices(prices, catalogue.currency, catalogue.cpus_per_core, tuple(remarks), catalogue_age_s)


def _price(
    template: Template, catalogue: Catalogue | None, labels: Sequence[str]
) -> tuple[Price | None, list[str]]:
    said = []
    name = template.instance_class
    if catalogue is not None and name:
        spot = bool(_SPOT & set(template.labels.items()))
        entry = catalogue.entries.get(f"{name}/spot") if spot else None
        if entry is None and (entry := catalogue.entries.get(name)) is not None and spot:
            said.append(f"class {name!r} is spot, its on-demand price is used")
        if entry is not None:
            said += _odd_size(template, entry.cores * catalogue.cpus_per_core)
            return Price(entry.price_per_hour, "catalogue"), said
    for label in labels:
        if (text := template.labels.get(label)) is None:
            continue
        price = _number(text)
        if price is not None:
            return Price(price, f"label {label}"), said
        said.append(f"label {label} is {text!r}, not a price above 0")
    said.append(f"no price for class {name!r}" if name else "no price, and no instance class")
    return None, said


def _odd_size(template: Template, cpus: float) -> list[str]:
    has = template.capacity_cpu_millis / 1000
    if not has or abs(cpus / has - 1) <= _CPU_TOLERANCE:
        return []
    return [
        f"the catalogue gives class {template.instance_class!r} {cpus:g} CPUs, its node has {has:g}: "
        "is cpusPerCore right?"
    ]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
