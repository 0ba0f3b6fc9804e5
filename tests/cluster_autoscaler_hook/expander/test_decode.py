"""What is read from the requests of real and generated callers, in both field sets."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.expander import decode as module
from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.decode import DecodeTimeout, RequestError, decode, first_look
from cluster_autoscaler_hook.expander.model import Demand
from cluster_autoscaler_hook.expander.pod_demand import demand
from cluster_autoscaler_hook.solver.deadline import Deadline
from experiments.expander.large_request import large_request
from tests.cluster_autoscaler_hook.expander.builders import (
    GIB,
    RECORDED,
    decoded,
    node,
    old_fields,
    pod,
    request,
)

WEB = Demand(900, 3 * GIB)
API, BATCH = Demand(2000, GIB), Demand(350, 4 * GIB + (64 << 20))


def test_the_recorded_requests() -> None:
    offers = [decoded(file.read_bytes()) for file in RECORDED]
    assert [{k.demand: n for k, n in zip(o.kinds, o.pending, strict=True)} for o in offers] == [
        {WEB: 20},
        {API: 15, BATCH: 60},
        {BATCH: 6},
    ]
    counts = [{option.group: option.nodes for option in offer.options} for offer in offers]
    assert counts == [
        {"m5.2xlarge": 5, "r5.2xlarge": 5, "c6g.4xlarge": 3, "c5.large": 20, "c5.2xlarge": 5},
        {"m5.2xlarge": 15, "r5.2xlarge": 15, "c6g.4xlarge": 10, "c5.2xlarge": 20},
        {"m5.2xlarge": 1, "r5.2xlarge": 1, "c6g.4xlarge": 1, "c5.2xlarge": 2},
    ]
    template = offers[0].templates["m5.2xlarge"]
    assert (template.instance_class, template.cpu_millis, template.memory_bytes, template.max_pods) == (
        "m5.2xlarge",
        4000,
        32 * GIB,
        110,
    )
    assert template.labels["price"] == "0.428"


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
@pytest.mark.parametrize("keep_new", [False, True], ids=["up to 1.33", "1.34"])
def test_every_field_set_says_the_same(file: Path, keep_new: bool) -> None:
    body = file.read_bytes()
    assert decoded(old_fields(body, keep_new)) == decoded(body)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_half_a_request_is_refused_or_read(file: Path) -> None:
    body = file.read_bytes()
    for length in [*range(0, 200), *range(200, len(body), 997)]:
        _refused_or_read(body[:length])


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_read(body: bytes) -> None:
    _refused_or_read(body)


@given(st.data())
def test_damage_is_refused_or_read(data: st.DataObject) -> None:
    body = bytearray(RECORDED[2].read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    _refused_or_read(bytes(body))


def _refused_or_read(body: bytes) -> None:
    with contextlib.suppress(RequestError):
        decoded(body)


def test_a_pod_is_parsed_once_however_often_it_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """And read once for all pods that differ in nothing a plan looks at."""
    pods = [pod("1", "1Gi", f"web-{i}") for i in range(300)]
    pods += [pod("2", "1Gi", f"api-{i}") for i in range(50)]
    parsed: list[bytes] = []
    read: list[object] = []
    real_demand, real_pod = demand, expander_pb2.Pod

    class CountingPod:
        @staticmethod
        def FromString(body: bytes) -> object:
            parsed.append(body)
            return real_pod.FromString(body)

    def counting_demand(of_pod: expander_pb2.Pod) -> Demand:
        read.append(of_pod)
        return real_demand(of_pod)

    monkeypatch.setattr(expander_pb2, "Pod", CountingPod)
    monkeypatch.setattr(module, "demand", counting_demand)
    groups = [f"group-{i}" for i in range(30)]
    found = decoded(request(dict.fromkeys(groups, (7, pods)), {g: node() for g in groups}))
    assert (len(parsed), len(read)) == (350, 2)
    assert sorted(found.pending) == [50, 300]
    assert all(option.pod_count == 350 for option in found.options)


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), max_size=5), st.booleans())
def test_pods_in_any_order_and_place_are_counted(orders: list[list[int]], pods_first: bool) -> None:
    """Options with the same pods share what was read; in another order or place they do not."""
    pods = [pod(f"{1 + i // 2}", "1Gi", f"web-{i}") for i in range(6)]
    body = b""
    for number, order in enumerate(orders):
        head, tail = (
            expander_pb2.Option(nodeGroupId=f"g{number}"),
            expander_pb2.Option(podBytes=[pods[i] for i in order]),
        )
        parts = [head.SerializeToString(), tail.SerializeToString()]
        option = b"".join(reversed(parts) if pods_first else parts) + expander_pb2.Option(
            nodeCount=number
        ).SerializeToString() * (number % 2)
        body += request({}, {f"g{number}": node()}) + _length_delimited(1, option)
    found = decoded(body)
    assert [(o.group, o.nodes) for o in found.options] == [
        (f"g{i}", i if i % 2 else 0) for i in range(len(orders))
    ]
    for got, order in zip(found.options, orders, strict=True):
        by_cpu: Counter[int] = Counter()
        for kind, n in got.pods.items():
            by_cpu[found.kinds[kind].demand.cpu_millis] += n
        assert by_cpu == Counter(1000 * (1 + i // 2) for i in order)
    assert sum(found.pending) == len({i for order in orders for i in order})


def _length_delimited(number: int, content: bytes) -> bytes:
    size, prefix = len(content), bytes([number << 3 | 2])
    while size > 127:
        prefix, size = prefix + bytes([size & 127 | 128]), size >> 7
    return prefix + bytes([size]) + content


def test_the_largest_request_is_like_real_ones() -> None:
    body = large_request(3, total_bytes=1 << 20)
    found = decoded(body)
    assert (1 << 20) * 0.98 < len(body) <= 1 << 20
    assert (len(found.options), len(found.kinds)) == (3, 20)
    assert sum(found.pending) == found.options[2].pod_count == (1 << 20) // 3 // 3004


def test_replicas_with_token_volumes_and_anti_affinity_are_one_kind() -> None:
    """Their specs differ in the volume's name; what repels its own kind is told by labels too."""
    pods = [pod(name=f"a-{i}") + b"\x12\x17\x0a\x15kube-api-access-%05d" % i for i in range(20)]
    message = expander_pb2.Pod.FromString(pods[0])
    message.spec.affinity.podAntiAffinity.required.add(topologyKey="kubernetes.io/hostname")
    repelled = message.spec.affinity.podAntiAffinity.required[0].labelSelector.matchLabels
    repelled.add(key="app", value="one")
    alone = []
    for i, app in enumerate(["one", "one", "two"]):
        del message.metadata.labels[:]
        message.metadata.labels.add(key="app", value=app)
        alone.append(message.SerializeToString() + b"\x7a\x01%d" % i)
    found = decoded(request({"a": (1, pods + alone)}, {"a": node()}))
    assert {(k.demand.alone, n) for k, n in zip(found.kinds, found.pending, strict=True)} == {
        (False, 21),
        (True, 2),
    }


def test_pods_that_other_groups_help_are_other_kinds() -> None:
    anywhere = [pod("1", "1Gi", f"a-{i}") for i in range(3)]
    # The same requests, and a node selector (field 7 of the spec): only one group takes them.
    tied = [p + b"\x12\x0a\x3a\x08\x0a\x01z\x12\x03one" for p in (pod(name=f"b-{i}") for i in range(2))]
    found = decoded(
        request({"one": (2, anywhere + tied), "two": (1, anywhere)}, {"one": node(), "two": node()})
    )
    assert {kind.groups: n for kind, n in zip(found.kinds, found.pending, strict=True)} == {
        frozenset({"one", "two"}): 3,
        frozenset({"one"}): 2,
    }


def test_a_group_that_reached_its_size_still_helps_the_kind() -> None:
    """The caller lists only the pods that the nodes it may add take."""
    pods = [pod(name=f"web-{i}") for i in range(10)]
    found = decoded(request({"small": (1, pods[:4]), "large": (1, pods)}, {"small": node(), "large": node()}))
    assert [kind.groups for kind in found.kinds] == [frozenset({"small", "large"})]
    assert found.pending == (10,)
    assert [dict(option.pods) for option in found.options] == [{0: 4}, {0: 10}]


def test_a_node_that_cannot_be_read_is_said() -> None:
    look = first_look(request({"a": (1, [pod()]), "b": (1, [pod()])}, {"a": node(cpu="many")}))
    assert not look.templates
    assert [problem.split(":")[0] for problem in look.problems] == ["a", "b"]
    assert "'many'" in look.problems[0]


def test_a_pod_that_cannot_be_read_is_named() -> None:
    with pytest.raises(RequestError, match=r"requests\.cpu.*'lots'"):
        decoded(request({"a": (1, [pod(cpu="lots")])}, {"a": node()}))


def test_bad_text_is_refused() -> None:
    with pytest.raises(RequestError):
        first_look(b"\x0a\x04\x0a\x02\xff\xfe")  # an option whose id is not UTF-8


def test_a_resource_whose_name_is_not_text_is_refused() -> None:
    body = RECORDED[0].read_bytes()
    assert b"memory" in body
    with pytest.raises(RequestError, match="not text"):
        decoded(body.replace(b"memory", b"m\xffmory"))


def test_no_time() -> None:
    with pytest.raises(DecodeTimeout):
        decode(first_look(RECORDED[0].read_bytes()), Deadline.after(0))
