"""Requests and offers for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.decision import PlanFailed
from cluster_autoscaler_hook.expander.decode import decode, first_look
from cluster_autoscaler_hook.expander.model import Demand, Kind, Offer, Option, Price, Template
from cluster_autoscaler_hook.expander.prices import Prices
from cluster_autoscaler_hook.solver.deadline import Deadline
from cluster_autoscaler_hook.solver.model import Problem, Solution

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.bin"))
GIB = 1 << 30


def decoded(body: bytes) -> Offer:
    return decode(first_look(body), Deadline.after(10))


def old_fields(body: bytes, keep_new: bool = False) -> bytes:
    """As 1.33 would have sent it, or 1.34 (both field sets)."""
    message = expander_pb2.BestOptionsRequest.FromString(body)
    for option in message.options:
        option.pod.extend(option.podBytes)
        if not keep_new:
            option.ClearField("podBytes")
    message.nodeMap.extend(message.nodeBytesMap)
    if not keep_new:
        message.ClearField("nodeBytesMap")
    return message.SerializeToString()


def pod(cpu: str = "1", memory: str = "1Gi", name: str = "") -> bytes:
    message = expander_pb2.Pod()
    _request(message.spec.containers.add().resources.requests, cpu=cpu, memory=memory)
    encoded = message.SerializeToString()
    # ObjectMeta.name, which our messages do not know.
    metadata = b"\x0a" + bytes([len(name)]) + name.encode()
    return encoded + b"\x0a" + bytes([len(metadata)]) + metadata if name else encoded


def node(cpu: str = "4", memory: str = "16Gi", pods: str = "110", **labels: str) -> bytes:
    message = expander_pb2.Node()
    _request(message.status.allocatable, cpu=cpu, memory=memory, pods=pods)
    _request(message.status.capacity, cpu=cpu, memory=memory, pods=pods)
    for key, value in labels.items():
        message.metadata.labels.add(key=key.replace("__", "/").replace("_", "-"), value=value)
    return message.SerializeToString()


def request(options: Mapping[str, tuple[int, Sequence[bytes]]], nodes: Mapping[str, bytes]) -> bytes:
    message = expander_pb2.BestOptionsRequest()
    for group, (count, pods) in options.items():
        message.options.add(nodeGroupId=group, nodeCount=count).podBytes.extend(pods)
    for group, body in nodes.items():
        message.nodeBytesMap.add(key=group, value=body)
    return message.SerializeToString()


def chosen(answer: bytes) -> list[str]:
    return [option.nodeGroupId for option in expander_pb2.BestOptionsResponse.FromString(answer).options]


def template(group: str, cpus: float = 4, gib: float = 16, pods: int = 110) -> Template:
    cpu, memory = round(cpus * 1000), round(gib * GIB)
    return Template(group, group, cpu, memory, pods, {}, cpu, memory)


def kind(groups: Sequence[str], cpus: float = 1, gib: float = 1, alone: bool = False) -> Kind:
    return Kind(Demand(round(cpus * 1000), round(gib * GIB), alone=alone), frozenset(groups))


def offer(
    templates: Sequence[Template], kinds: Sequence[Kind], pending: Sequence[int], nodes: Sequence[int]
) -> Offer:
    """`nodes`: the caller's count for each template."""
    options = [
        Option(t.group, count, {i: n for i, n in enumerate(pending) if t.group in kinds[i].groups})
        for t, count in zip(templates, nodes, strict=True)
    ]
    return Offer(tuple(options), {t.group: t for t in templates}, tuple(kinds), tuple(pending))


def prices(**by_group: float) -> Prices:
    return Prices({group: Price(price, "test") for group, price in by_group.items()}, "USD", 1.0, ())


def no_plan(_: Problem, __: float) -> Solution:
    raise PlanFailed("not in this test")


def _request(entries: Any, **amounts: str) -> None:
    for key, value in amounts.items():
        entries.add(key=key).value.string = value
