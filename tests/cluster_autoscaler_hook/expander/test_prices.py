"""Where a price comes from, and what is said where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueEntry
from cluster_autoscaler_hook.expander.model import Price
from cluster_autoscaler_hook.expander.prices import price_groups
from tests.cluster_autoscaler_hook.expander.builders import template

CATALOGUE = Catalogue(
    "EUR",
    2.0,
    {
        "m5": CatalogueEntry("m5", "m5", 2, 16, 0.2),
        "m5/spot": CatalogueEntry("m5/spot", "m5", 2, 16, 0.07),
        "c5": CatalogueEntry("c5", "c5", 2, 8, 0.17),
    },
)


def labelled(group: str, **labels: str) -> object:
    return replace(template(group), labels={k.replace("__", "/"): v for k, v in labels.items()})


@pytest.mark.parametrize(
    ("group", "labels", "price", "said"),
    [
        ("m5", {}, Price(0.2, "catalogue"), ""),
        ("m5", {"cost": "9"}, Price(0.2, "catalogue"), ""),
        ("m5", {"eks.amazonaws.com__capacityType": "SPOT"}, Price(0.07, "catalogue"), ""),
        ("c5", {"eks.amazonaws.com__capacityType": "SPOT"}, Price(0.17, "catalogue"), "on-demand price"),
        ("x1", {"cost": "0.5"}, Price(0.5, "label cost"), ""),
        ("x1", {"cost": "nan"}, None, "'nan'"),
        ("x1", {"cost": "0"}, None, "'0'"),
        ("x1", {"cost": "-1"}, None, "'-1'"),
        ("x1", {"cost": "free"}, None, "'free'"),
        ("x1", {"cost": "", "other": "2"}, Price(2.0, "label other"), "''"),
        ("x1", {}, None, "no price for class 'x1'"),
    ],
)
def test_catalogue_then_labels_then_said(
    group: str, labels: dict[str, str], price: Price | None, said: str
) -> None:
    found = price_groups([labelled(group, **labels)], CATALOGUE, ("cost", "other"))  # type: ignore[list-item]
    assert found.by_group.get(group) == price
    assert said in " ".join(found.remarks)
    assert bool(said) == bool(found.remarks)
    assert found.currency == "EUR"


def test_without_a_catalogue() -> None:
    found = price_groups([template("m5")], None, ())
    assert not found.by_group
    assert found.remarks == ("m5: no price for class 'm5'",)
    assert (found.cpus_per_core, found.ages_s) == (1.0, {})


def test_the_catalogue_brings_its_cores_and_its_age() -> None:
    found = price_groups([template("m5")], CATALOGUE, (), 12.0)
    assert (found.cpus_per_core, found.ages_s) == (2.0, {"catalogue": 12.0})


def test_a_catalogue_with_the_wrong_cores_is_said() -> None:
    found = price_groups([template("m5", cpus=2)], CATALOGUE, ())
    assert found.by_group["m5"].per_hour == 0.2
    assert "cpusPerCore" in found.remarks[0]
