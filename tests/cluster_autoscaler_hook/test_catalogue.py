"""A catalogue is wholly good or refused, and an error names class, field and value."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_autoscaler_hook.catalogue import CatalogueEntry, CatalogueError, from_csv, load, parse
from tests.paths import ROOT

TABLE = ROOT / "cluster_autoscaler_hook" / "data" / "aws_eu_west_1.csv"
GOOD = """
currency: USD
priceUnit: hour
cpusPerCore: 2
classes:
- {class: m5.large, family: m5, cores: 1, memoryGiB: 8, price: 0.107}
- {class: c5.large, family: c5, cores: 1, memoryGiB: 4, price: 0.096}
"""


def test_a_good_one() -> None:
    catalogue = parse(GOOD)
    assert (catalogue.currency, catalogue.cpus_per_core) == ("USD", 2.0)
    assert catalogue.entries["m5.large"] == CatalogueEntry("m5.large", "m5", 1.0, 8.0, 0.107)
    assert parse(GOOD.encode()) == catalogue


def test_labels_and_whether_the_prices_are_a_sample() -> None:
    catalogue = parse(GOOD.replace("0.107", '0.107, labels: {cpus: "4"}') + "sample: true\n")
    assert catalogue.entries["m5.large"].labels == {"cpus": "4"}
    assert catalogue.entries["c5.large"].labels == {}
    assert catalogue.sample
    assert not parse(GOOD).sample


@pytest.mark.parametrize(
    ("unit", "price", "per_hour"), [("hour", "0.1", 0.1), ("second", "0.0001", 0.36), ("month", "73", 0.1)]
)
def test_prices_are_per_hour_whatever_the_unit(unit: str, price: str, per_hour: float) -> None:
    catalogue = parse(GOOD.replace("priceUnit: hour", f"priceUnit: {unit}").replace("0.107", price))
    assert catalogue.entries["m5.large"].price_per_hour == pytest.approx(per_hour)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("0.107", "0", ["m5.large", "price", "0"]),
        ("0.107", "-1", ["m5.large", "price", "-1"]),
        ("0.107", ".nan", ["m5.large", "price", "nan"]),
        ("0.107", ".inf", ["m5.large", "price", "inf"]),
        ("0.107", "cheap", ["m5.large", "price", "'cheap'"]),
        ("0.107", "true", ["m5.large", "price", "True"]),
        ("c5.large", "m5.large", ["m5.large", "twice"]),
        ("priceUnit: hour", "priceUnit: day", ["priceUnit", "'day'", "hour, second, month"]),
        ("priceUnit: hour", "priceunit: hour", ["unknown key 'priceunit'"]),
        ("cores: 1, memoryGiB: 8", "cores: 0, memoryGiB: 8", ["m5.large", "cores", "0"]),
        ("memoryGiB: 8, ", "", ["m5.large", "memoryGiB", "None"]),
        ("class: m5.large", "class: 5", ["classes[0]", "class", "5"]),
        ("cpusPerCore: 2", "cpusPerCore: 0", ["cpusPerCore", "0"]),
        ("currency: USD", "currency:", ["currency", "None"]),
        ("currency: USD", "currency: USD\nsample: maybe", ["sample", "'maybe'"]),
        ("0.107", "0.107, labels: {cpus: 4}", ["m5.large", "labels", "4"]),
        ("0.107", "0.107, labels: fast", ["m5.large", "labels", "'fast'"]),
    ],
)
def test_faults_are_named(old: str, new: str, names: list[str]) -> None:
    assert old in GOOD
    with pytest.raises(CatalogueError) as error:
        parse(GOOD.replace(old, new, 1) if old != "c5.large" else GOOD.replace(old, new))
    assert all(name in str(error.value) for name in names), str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "classes: 3", "currency: USD\nclasses: []", "{", b"\xff\xfe\x00"])
def test_what_is_no_catalogue(text: str | bytes) -> None:
    with pytest.raises(CatalogueError):
        parse(text)


def test_the_papers_table() -> None:
    catalogue = from_csv(TABLE)
    assert len(catalogue.entries) == 105
    assert catalogue.entries["c5.large"] == CatalogueEntry("c5.large", "c5_m5_r5", 1.0, 4.0, 0.096)


def test_a_table_without_a_column(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("instance_class,family\n")
    with pytest.raises(CatalogueError, match="'cores' is missing"):
        from_csv(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"gone\.yaml"):
        load(tmp_path / "gone.yaml")
