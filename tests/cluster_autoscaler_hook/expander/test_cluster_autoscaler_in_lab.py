"""A real Cluster Autoscaler asks the expander and rents what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from experiments.expander.live import OURS, Deployment, LiveMix, play
from kwok import cluster_autoscaler
from kwok.cluster_autoscaler import NodeGroup
from kwok.errors import BinariesError, LabError
from kwok.lab import Lab
from surgekit.cli import app

REASON = "SURGEKIT_BIN_DIR holds no cluster-autoscaler built with the kwok provider"
GIB = 1 << 30


def group(name: str, cpus: int, gib: int, price: float) -> NodeGroup:
    capacity = {"cpu": str(cpus), "memory": f"{gib}Gi", "pods": "110"}
    return NodeGroup(name, capacity, capacity, price)


# Two nodes of `roomy` do, or four of `snug`, which waste as much and cost more.
MIX = LiveMix(
    "two-groups",
    [group("snug", 4, 16, 0.5), group("roomy", 8, 32, 0.6)],
    [Deployment(900, 3 * GIB, 12), Deployment(300, GIB, 6)],
)


@pytest.fixture
def cluster() -> Iterator[Lab]:
    """Empty but for the scheduler and, later, what Cluster Autoscaler rents."""
    try:
        cluster_autoscaler.binary()
    except BinariesError as error:
        pytest.skip(str(error))
    with Lab.temporary("autoscaler", instant_pods=True) as lab:
        lab.start_scheduler()
        yield lab


@pytest.mark.lab
def test_the_autoscaler_rents_what_the_expander_says(cluster: Lab) -> None:
    expander = cluster_autoscaler.start_expander(cluster)
    played = play(cluster, MIX, OURS, expander)
    decisions = expander.decisions()
    assert decisions
    assert set(played["classes"]) == {chosen for said in decisions for chosen in said["decision"]}
    prices = {one.name: one.price_per_hour for one in MIX.groups}
    nodes = sum(prices[name] * count for name, count in played["classes"].items())
    assert played["cost_per_hour"] == pytest.approx(nodes)
    assert played["cost_per_hour"] <= play(cluster, MIX, "least-waste", expander)["cost_per_hour"]


@pytest.mark.parametrize("directory", [None, "empty"])
def test_without_the_binary_the_reason_is_said(
    directory: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SURGEKIT_BIN_DIR", raising=False)
    if directory:
        monkeypatch.setenv("SURGEKIT_BIN_DIR", str(tmp_path))
    with pytest.raises(BinariesError, match=f"^{REASON}$"):
        cluster_autoscaler.binary()
    done = CliRunner().invoke(app, ["bench", "expander", "--live"])
    assert isinstance(done.exception, LabError)  # which the command line prints as one line
    assert str(done.exception) == REASON


def test_templates_are_what_the_kwok_provider_reads() -> None:
    """cloudprovider/kwok: the group by annotation, always some annotations, no podCIDR that copies share."""
    found = cluster_autoscaler.template(MIX.groups[0])
    assert found["metadata"]["annotations"] == {
        "kwok.x-k8s.io/node": "fake",
        "cluster-autoscaler.kwok.nodegroup/name": "snug",
        "cluster-autoscaler.kwok.nodegroup/max-count": "200",
    }
    assert found["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "snug"
    assert found["metadata"]["labels"]["surgekit.dev/price-per-hour"] == "0.5"
    assert found["spec"] == {}
    assert yaml.safe_load(yaml.safe_dump(found)) == found
