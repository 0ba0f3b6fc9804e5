"""Which pods take requests, by what EndpointSlices and pods say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_gateway.backends import Pod
from function_gateway.endpoints import (
    BURST_FUNCTION,
    COMBOFUNC,
    CONCURRENCY,
    Burst,
    Endpoints,
    Function,
    read_burst,
    read_concurrency,
    read_slice,
)

WEB = Function("shop", "web")


def pod(name: str, concurrency: str | None = "4") -> dict[str, Any]:
    annotations = {} if concurrency is None else {CONCURRENCY: concurrency}
    return {"metadata": {"uid": f"uid-{name}", "name": name, "annotations": annotations}}


def piece(*endpoints: dict[str, Any], name: str = "web-1", **changed: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "uid": f"uid-{name}", "name": name, "namespace": "shop", "labels": {COMBOFUNC: "web"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    } | changed  # fmt: skip


def endpoint(name: str, address: str, ready: bool | None = True) -> dict[str, Any]:
    return {
        "addresses": [address],
        "conditions": {} if ready is None else {"ready": ready},
        "targetRef": {"kind": "Pod", "uid": f"uid-{name}"},
    }


def burst(
    name: str = "web", concurrency: int | None = 3, overflow: bool = True, **spec: Any
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Overflow", "status": str(overflow)}]
    return {
        "metadata": {"uid": f"uid-{name}", "name": name, "namespace": "shop"},
        "spec": spec | ({} if concurrency is None else {"concurrency": concurrency}),
        "status": {"conditions": conditions},
    }


class Fed(Endpoints):
    """As the watches' tables feed it."""

    def replace_slices(self, objects: list[dict[str, Any]]) -> None:
        for is_burst in (False, True):
            self.keep_slices({obj["metadata"]["uid"] for obj in objects}, is_burst)
        for obj in objects:
            self.apply_slice("MODIFIED", obj)

    def apply_slice(self, kind: str, obj: dict[str, Any]) -> bool:
        return self.put_slice(obj["metadata"]["uid"], None if kind == "DELETED" else read_slice(obj))

    def replace_pods(self, objects: list[dict[str, Any]]) -> None:
        self.keep_pods({obj["metadata"]["uid"] for obj in objects})
        for obj in objects:
            self.apply_pod("MODIFIED", obj)

    def apply_pod(self, kind: str, obj: dict[str, Any]) -> bool:
        if kind == "DELETED":
            return self.put_pod(obj["metadata"]["uid"], None)
        says = read_concurrency(obj)
        return says is not None and self.put_pod(obj["metadata"]["uid"], says)

    def apply_burst(self, kind: str, obj: dict[str, Any]) -> bool:
        return self.put_burst(obj["metadata"]["uid"], None if kind == "DELETED" else read_burst(obj))


@pytest.fixture
def state() -> Fed:
    state = Fed()
    state.replace_pods([pod("a"), pod("b", "2")])
    state.replace_slices([piece(endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2"))])
    return state


def test_a_functions_pods(state: Fed) -> None:
    assert state.functions() == {WEB: (Pod("10.0.0.1", 8080, 4), Pod("10.0.0.2", 8080, 2))}
    assert state.unknown() == {WEB: 0}
    assert WEB.host == "web.shop"


@pytest.mark.parametrize(("ready", "served"), [(True, 1), (None, 1), (False, 0)])
def test_a_pod_that_is_not_ready_gets_nothing(state: Fed, ready: bool | None, served: int) -> None:
    assert state.apply_slice("MODIFIED", piece(endpoint("a", "10.0.0.1", ready)))
    assert len(state.functions()[WEB]) == served


def test_a_function_without_pods_is_still_one(state: Fed) -> None:
    state.apply_slice("MODIFIED", piece(endpoints=None, ports=None))
    assert state.functions() == {WEB: ()}
    assert state.apply_slice("DELETED", piece())
    assert state.functions() == {}


def test_a_resize_shows(state: Fed) -> None:
    assert state.apply_pod("MODIFIED", pod("a", "8"))
    assert state.functions()[WEB][0].concurrency == 8
    assert not state.apply_pod("MODIFIED", pod("a", "8"))


@pytest.mark.parametrize("text", [None, "", "0", "-1", "many", "1.5", "99999999", "²"])
def test_what_cannot_be_read_never_counts(state: Fed, text: str | None) -> None:
    """What the pod said before stands; a new pod gets no requests, and that is told."""
    assert not state.apply_pod("MODIFIED", pod("a", text))
    assert state.functions()[WEB][0].concurrency == 4
    state.replace_pods([pod("a", text), pod("b")])
    assert state.functions()[WEB][0].concurrency == 4
    assert not state.apply_pod("ADDED", pod("c", text))
    state.apply_slice("MODIFIED", piece(endpoint("c", "10.0.0.3")))
    assert state.functions() == {WEB: ()}
    assert state.unknown() == {WEB: 1}


def test_a_pod_that_is_gone_or_not_seen_yet_gets_nothing(state: Fed) -> None:
    assert state.apply_pod("DELETED", pod("a"))
    assert state.functions() == {WEB: (Pod("10.0.0.2", 8080, 2),)}
    assert state.unknown() == {WEB: 1}


def test_a_pod_in_several_slices_counts_once(state: Fed) -> None:
    six = piece(endpoint("a", "fd00::1"), name="web-0", addressType="IPv6")
    state.apply_slice("ADDED", six)
    assert state.functions()[WEB][0] == Pod("10.0.0.1", 8080, 4)
    state.apply_slice("DELETED", piece())
    assert state.functions()[WEB] == (Pod("fd00::1", 8080, 4),)


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([{"port": 9000}], 9000),
        ([{"name": "metrics", "port": 9000}, {"name": "http", "port": 8081}], 8081),
        ([{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "any", "port": 9000}], 9000),
    ],
)
def test_the_port_that_is_meant(state: Fed, ports: list[dict[str, Any]], expected: int) -> None:
    state.apply_slice("MODIFIED", piece(endpoint("a", "10.0.0.1"), ports=ports))
    assert state.functions()[WEB][0].port == expected


@pytest.mark.parametrize("address", ["host.example", "10.0.0.1;show info", "fe80::1%a;b", "10.0.0.1\n", ""])
def test_an_address_that_is_none_gets_nothing(state: Fed, address: str) -> None:
    state.apply_slice("MODIFIED", piece(endpoint("a", address)))
    assert [len(pods) for pods in state.functions().values()] == [0]


def test_addresses_of_others_than_pods_get_nothing(state: Fed) -> None:
    state.apply_slice("MODIFIED", piece({"addresses": ["10.0.0.9"], "conditions": {"ready": True}}))
    assert state.functions() == {WEB: ()}


OBJECTS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "slice", "pods", "slices", "burst"]),
        st.sampled_from(["ADDED", "MODIFIED", "DELETED"]),
        st.sampled_from("abc"),
        st.sampled_from(["1", "8"]),
        st.sampled_from(["web", "other"]),
    ),
    max_size=20,
)


@given(OBJECTS)
def test_changes_lead_where_a_new_list_would(steps: list[tuple[str, str, str, str, str]]) -> None:
    """Whatever is kept of a function from one change to the next is what a fresh look would find."""
    state = Fed()
    pods: dict[str, dict[str, Any]] = {}
    slices: dict[str, dict[str, Any]] = {}
    bursts: dict[str, dict[str, Any]] = {}
    for what, kind, name, concurrency, function in steps:
        if what == "pods":
            state.replace_pods(list(pods.values()))
        elif what == "slices":
            state.replace_slices(list(slices.values()))
        elif what == "burst":
            obj = burst(function, int(concurrency), overflow=kind == "ADDED")
            state.apply_burst(kind, obj)
            bursts.pop(function, None) if kind == "DELETED" else bursts.update({function: obj})
        elif what == "pod":
            obj = pod(name, concurrency)
            state.apply_pod(kind, obj)
            pods.pop(name, None) if kind == "DELETED" else pods.update({name: obj})
        else:
            obj = piece(endpoint("a", "10.0.0.1"), endpoint(name, f"10.0.0.{ord(name)}"), name=name)
            obj["metadata"]["labels"] = {BURST_FUNCTION if name == "b" else COMBOFUNC: function}
            state.apply_slice(kind, obj)
            slices.pop(name, None) if kind == "DELETED" else slices.update({name: obj})
        fresh = Fed()
        fresh.replace_pods(list(pods.values()))
        fresh.replace_slices(list(slices.values()))
        for obj in bursts.values():
            fresh.apply_burst("ADDED", obj)
        assert state.functions() == fresh.functions()
        assert state.unknown() == fresh.unknown()
        assert state.overflow() == fresh.overflow()
        assert state._functions_of == fresh._functions_of


def owned(slice_name: str, **owner: str) -> dict[str, Any]:
    made = piece(name=slice_name)
    made["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Service"} | owner]
    return made


def test_the_service_of_a_function_is_the_owner_of_its_slices() -> None:
    known = Fed()
    by_hand, other = piece(name="by-hand"), owned("other", kind="Pod", name="p", uid="1")
    known.replace_slices([by_hand, other])
    assert known.service(WEB) is None
    assert known.service(Function("shop", "unknown")) is None
    known.apply_slice("ADDED", owned("web-1", name="web", uid="2"))
    assert known.service(WEB) == ("web", "2")
    known.apply_slice("DELETED", owned("web-1", name="web", uid="2"))
    assert known.service(WEB) is None


def of_burst(*endpoints: dict[str, Any], **labels: str) -> dict[str, Any]:
    made = piece(*endpoints)
    made["metadata"]["labels"] = {BURST_FUNCTION: "web"} | labels
    return made


def test_a_burst_functions_pods_take_what_it_says() -> None:
    state = Fed()
    state.apply_slice("ADDED", of_burst(endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2")))
    assert {pod.concurrency for pod in state.functions()[WEB]} == {1}, "while it is not known: the default"
    assert state.apply_burst("ADDED", burst(concurrency=3))
    assert {pod.concurrency for pod in state.functions()[WEB]} == {3}
    assert not state.apply_burst("MODIFIED", burst(concurrency=3))
    state.apply_pod("ADDED", pod("a", "8"))
    assert [pod.concurrency for pod in state.functions()[WEB]] == [8, 3], "a ComboFunc sizes its pods"
    assert state.unknown() == {WEB: 0}
    assert state.apply_burst("DELETED", burst())
    assert [pod.concurrency for pod in state.functions()[WEB]] == [8, 1]


def test_a_service_with_both_labels_is_one_function() -> None:
    state = Fed()
    state.apply_slice("ADDED", of_burst(endpoint("a", "10.0.0.1"), **{COMBOFUNC: "other"}))
    assert state.functions() == {WEB: (Pod("10.0.0.1", 8080, 1),)}


def test_a_burst_function_with_no_name_for_its_service_changes_nothing() -> None:
    state = Fed()
    state.apply_burst("ADDED", burst("nobody"))
    assert state.functions() == {}
    state.apply_slice("ADDED", piece(endpoint("a", "10.0.0.1")))
    state.apply_burst("ADDED", burst("web"))
    assert state.unknown() == {WEB: 1}, "a ComboFunc's pod still has to say what it takes"


@pytest.mark.parametrize(
    ("status", "may"),
    [
        ({"conditions": [{"type": "Overflow", "status": "True"}]}, True),
        ({"conditions": [{"type": "Overflow", "status": "False"}]}, False),
        ({"conditions": [{"type": "Overflow", "status": "Unknown"}]}, False),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, False),
        ({}, False),
        (None, False),
    ],
)
def test_overflow_is_allowed_exactly_while_the_condition_holds(status: Any, may: bool) -> None:
    state = Fed()
    state.apply_burst("ADDED", burst(idempotent=True) | {"status": status})
    expected = Burst(WEB, 3, overflow=True, idempotent=True)
    assert state.overflow() == ({WEB: expected} if may else {})


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5, "2", 10**30, [1]])
def test_a_concurrency_that_is_none_is_refused(concurrency: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        read_burst(burst(concurrency=concurrency))


def test_a_concurrency_that_is_not_said_is_one() -> None:
    assert read_burst(burst(concurrency=None)).concurrency == 1
