"""Requests recorded from the real kube-scheduler (record_kube_scheduler.py), answered by the extender."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from cluster_model.node_table import NodeFacts
from scheduler_extender.requests import parse
from scheduler_extender.server import Application
from surgekit.kube.pods import images, requests
from tests.scheduler_extender import builders

RECORDED = Path(__file__).parent / "kube-scheduler"
NODES = ["node-0", "node-1", "node-2"]


@pytest.mark.parametrize("form", ["names", "nodes"])
def test_recorded_requests_are_read(form: str) -> None:
    args = parse((RECORDED / f"prioritize-{form}.json").read_bytes())
    assert sorted(args.node_names) == NODES
    assert args.pod["metadata"]["namespace"] == "default"
    assert requests(args.pod) == (250.0, 512 * 2**20)
    assert images(args.pod) == ("registry.example/app:1",)


@pytest.mark.parametrize("form", ["names", "nodes"])
def test_recorded_requests_are_answered(form: str) -> None:
    extender = builders.extender(0, scheduler_name="default-scheduler")
    for n in NODES:
        extender.state.nodes.put_node(NodeFacts(n, 8000, 16 * builders.GIB, frozenset()))
    status, body = Application(extender).prioritize((RECORDED / f"prioritize-{form}.json").read_bytes())
    answer = orjson.loads(body)
    assert status == 200
    # k8s.io/kube-scheduler/extender/v1 HostPriority: Host string, Score int64
    assert all(type(a["Host"]) is str and type(a["Score"]) is int for a in answer)
    assert sorted(a["Host"] for a in answer) == NODES
    assert sorted(a["Score"] for a in answer) == [8, 9, 10]
