"""The NodeClaim as it is written (golden) and read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cluster_autoscaler_hook.karpenter.claims import claim_object, read_claim
from cluster_autoscaler_hook.karpenter.model import Kind, PlannedNode
from cluster_autoscaler_hook.karpenter.settings import Settings
from tests.cluster_autoscaler_hook.karpenter.builders import GIB

SETTINGS = Settings(
    node_class_group="karpenter.kwok.sh", node_class_kind="KWOKNodeClass", node_class_name="default"
)
KIND = Kind(900, 3 * GIB)
NODE = PlannedNode("fcma-1a2b3c4d-0", "c6g.12xlarge", 1.752, {KIND.id: 20})


def test_the_claim_is_as_recorded(request: pytest.FixtureRequest) -> None:
    file = Path(__file__).parent / "nodeclaim.golden.yaml"
    text = yaml.safe_dump(claim_object(NODE, {KIND.id: KIND}, "1a2b3c4d", SETTINGS), sort_keys=False)
    if request.config.getoption("--update-golden"):
        file.write_text(text)
    assert text == file.read_text()


def test_what_was_written_is_read() -> None:
    obj = claim_object(NODE, {KIND.id: KIND}, "1a2b3c4d", SETTINGS)
    claim = read_claim(obj)
    assert (claim.name, claim.instance_class, claim.planned) == (NODE.claim, NODE.instance_class, NODE.pods)
    assert not claim.launched
    assert not claim.failure


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": "many"}', "null"])
def test_an_annotation_somebody_spoilt_is_no_plan(text: str) -> None:
    obj = claim_object(NODE, {KIND.id: KIND}, "1a2b3c4d", SETTINGS)
    obj["metadata"]["annotations"]["surgekit.dev/planned"] = text
    assert read_claim(obj).planned == {}


def test_a_failed_launch_is_told_from_one_nobody_looked_at() -> None:
    obj = claim_object(NODE, {KIND.id: KIND}, "1a2b3c4d", SETTINGS)
    condition = {"type": "Launched", "status": "Unknown", "reason": "AwaitingReconciliation", "message": ""}
    obj["status"] = {"conditions": [condition]}
    assert not read_claim(obj).failure
    condition |= {"reason": "LaunchFailed", "message": "instance type not found"}
    assert "instance type not found" in read_claim(obj).failure
    condition |= {"status": "True"}
    assert read_claim(obj).launched
    assert not read_claim(obj).failure


def test_a_zone_that_pods_asked_for_is_required_and_read() -> None:
    settings = replace(SETTINGS, zones=("a", "b"))
    for zone in ("b", ""):
        obj = claim_object(replace(NODE, zone=zone), {KIND.id: KIND}, "1a2b3c4d", settings)
        assert read_claim(obj).zone == zone
