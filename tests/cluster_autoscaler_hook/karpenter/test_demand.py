"""From kinds and prices to FCMA's problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_autoscaler_hook.catalogue import CatalogueError, parse
from cluster_autoscaler_hook.karpenter.demand import (
    architectures,
    daemon_overhead,
    offers,
    problem_of,
    understood_labels,
    unservable,
)
from cluster_autoscaler_hook.karpenter.labels import ARCHITECTURE, INSTANCE_TYPE, ZONE
from cluster_autoscaler_hook.karpenter.model import MIB, Kind, Requirement
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import StrictCatalogue
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, OFFERS, TOLERATION, solve

SMALL, LARGE = Kind(500, GIB), Kind(3500, 2 * GIB)


def test_offers_are_what_pods_can_have_of_a_class() -> None:
    catalogue, _ = StrictCatalogue(None).read()
    found = {offer.name: offer for offer in offers(catalogue, Settings())}
    assert len(found) == 105
    # As Karpenter's KWOK provider has it: two CPUs a core, minus 100m and 10Mi.
    assert found["c5.large"].cpu_millicores == 1900
    assert found["c5.large"].memory_bytes == 4 * GIB - 10 * MIB
    assert found["c6g.large"].labels["kubernetes.io/arch"] == "arm64"
    assert found["c5.large"].labels["kubernetes.io/arch"] == "amd64"


def test_what_a_node_turned_out_to_have_counts_more_than_the_settings() -> None:
    catalogue, _ = StrictCatalogue(None).read()
    seen = {"c5.large": (1800, 3 * GIB, 29)}
    found = {offer.name: offer for offer in offers(catalogue, Settings(), seen, (100, MIB, 1), {"c5.xlarge"})}
    assert (found["c5.large"].cpu_millicores, found["c5.large"].pods) == (1700, 28)
    assert "c5.xlarge" not in found


def test_kinds_are_apps_and_alike_classes_one_family() -> None:
    problem = problem_of({SMALL: 3, LARGE: 2}, OFFERS)
    assert {app.workload for app in problem.apps} == {3.0, 2.0}
    assert {c.family for c in problem.classes} == {"any"}
    assert {c.name for c in problem.classes} == {"small", "medium", "fat"}


def test_a_restricted_kind_gets_the_classes_it_allows_only() -> None:
    only_fat = Kind(500, GIB, ((Requirement(INSTANCE_TYPE, "In", ("fat",)),),))
    problem = problem_of({SMALL: 3, only_fat: 4}, OFFERS)
    solution = solve(problem)
    for node in solution.allocation.nodes:
        assert only_fat.id not in node.containers or node.instance_class == "fat"


def test_a_kind_that_fits_nothing_is_said_and_does_not_stop_the_others() -> None:
    huge, nowhere = Kind(64000, GIB), Kind(100, GIB, ((Requirement("disk", "In", ("ssd",)),),))
    found = unservable({SMALL: 1, huge: 2, nowhere: 3}, OFFERS)
    assert {s.kind: s.pods for s in found} == {huge.id: 2, nowhere.id: 3}
    assert any("64000m" in s.reason for s in found)
    assert any("affinity" in s.reason for s in found)


def test_pods_that_stay_apart_get_a_node_each() -> None:
    problem = problem_of({Kind(100, MIB, exclusive=("x",)): 3}, OFFERS)
    assert len(solve(problem).allocation.nodes) == 3


def test_daemon_sets_take_room_on_every_node() -> None:
    def daemon_set(**spec: object) -> dict[str, object]:
        containers = [{"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}]
        return {"spec": {"template": {"spec": {"containers": containers, **spec}}}}

    tolerating = daemon_set(tolerations=[TOLERATION])
    elsewhere = daemon_set(tolerations=[{"operator": "Exists"}], nodeSelector={"disk": "ssd"})
    assert daemon_overhead([tolerating, elsewhere, daemon_set()], "fcma") == (100, 64 * MIB, 1)


def test_a_catalogue_that_changes_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    text = "currency: EUR\nclasses:\n- {class: a, family: f, cores: 1, memoryGiB: 2, price: 0.1}\n"
    file.write_text(text)
    source = StrictCatalogue(file)
    before = source.read()
    assert source.read() == before
    file.write_text(text.replace("0.1", "0.2"))
    catalogue, digest = source.read()
    assert digest != before[1]
    assert catalogue.entries["a"].price_per_hour == 0.2


LABELLED = """
currency: USD
classes:
- {class: a1.large, family: f, cores: 2, memoryGiB: 4, price: 0.1,
   labels: {kubernetes.io/arch: arm64, example.com/cpus: "2"}}
- {class: c5.large, family: f, cores: 2, memoryGiB: 4, price: 0.1}
"""


def test_labels_of_the_catalogue_are_understood_and_go_before_the_names() -> None:
    catalogue = parse(LABELLED)
    found = {offer.name: offer.labels for offer in offers(catalogue, Settings())}
    assert found["a1.large"]["example.com/cpus"] == "2"
    assert found["a1.large"][ARCHITECTURE] == "arm64"
    assert found["c5.large"][ARCHITECTURE] == "amd64"
    assert "example.com/cpus" in understood_labels(catalogue, Settings())
    assert ZONE not in understood_labels(catalogue, Settings())
    assert ZONE in understood_labels(catalogue, Settings(zones=("a",)))


def node(arch: str, **more: str) -> dict[str, str]:
    return {ARCHITECTURE: arch, **more}


@pytest.mark.parametrize(
    ("nodes", "named", "expected"),
    [
        ([], (), {"amd64"}),
        ([node("amd64"), node("amd64")], (), {"amd64"}),
        ([node("amd64"), node("arm64")], (), {"amd64", "arm64"}),
        ([node("arm64")], (), {"arm64"}),
        ([node("amd64")], ("arm64",), {"arm64"}),
        # Ours was for a pod that asked for it; it opens nothing to the others.
        ([node("amd64"), node("arm64", **{"surgekit.dev/pool": "fcma"})], (), {"amd64"}),
        ([node("arm64", **{"surgekit.dev/pool": "fcma"})], (), {"arm64"}),
        ([{}], (), {"amd64"}),
    ],
)
def test_the_architectures_are_those_of_the_cluster_unless_named(
    nodes: list[dict[str, str]], named: tuple[str, ...], expected: set[str]
) -> None:
    assert architectures(nodes, Settings(architectures=named)) == expected


def test_sample_prices_are_not_for_renting(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(LABELLED + "sample: true\n")
    assert StrictCatalogue(file).read()[0].sample
    with pytest.raises(CatalogueError, match="sample prices"):
        StrictCatalogue(file, live=True).read()
    file.write_text(LABELLED)
    assert not StrictCatalogue(file, live=True).read()[0].sample
