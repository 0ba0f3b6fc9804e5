"""Which pods a BurstFunction of a Knative Service has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_gateway.backends import Pod
from function_gateway.endpoints import Endpoints, Function, Slice, read_burst
from function_gateway.revisions import Revisions, read_private_slice
from tests.function_gateway.test_endpoints import endpoint, piece

WEB = Function("shop", "web")


def private(*endpoints: dict[str, Any], revision: str = "web-00001", **changed: Any) -> Slice:
    obj = piece(*endpoints, **changed)
    obj["metadata"]["labels"] = {"networking.internal.knative.dev/serverlessservice": revision}
    obj["ports"] = [{"name": "https", "port": 8112}, {"name": "http", "port": 8012}]
    return read_private_slice(obj)


def burst(revision: str | None = "web-00001", observed: str = "1", **changed: Any) -> Any:
    regular = {"revision": revision, "concurrency": 4} if revision else {}
    target = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "web"}
    return read_burst(
        {
            "metadata": {"uid": "uid-web", "name": "web", "namespace": "shop"},
            "spec": {"targetRef": target, "concurrency": 1} | changed,
            "status": {"regular": regular, "observedTime": observed, "conditions": []},
        }
    )


def made(longest_s: float = 60.0) -> tuple[Endpoints, Revisions]:
    endpoints = Endpoints()
    return endpoints, Revisions(endpoints, longest_s)


ONE = private(endpoint("a", "10.0.0.1"), endpoint("b", "10.0.0.2", ready=False))
TWO = private(endpoint("c", "10.0.0.3"), revision="web-00002")


@pytest.mark.parametrize("slice_first", [True, False])
def test_a_function_has_the_ready_pods_of_its_revision(slice_first: bool) -> None:
    endpoints, revisions = made()
    if slice_first:
        assert not revisions.put_slice("s1", ONE)
    assert revisions.put_burst("b", burst(), 0.0)
    if not slice_first:
        assert revisions.put_slice("s1", ONE)
    revisions.put_slice("s2", TWO)
    assert endpoints.functions() == {WEB: (Pod("10.0.0.1", 8012, 4),)}


def test_a_rollout_moves_it_to_the_next_revision() -> None:
    endpoints, revisions = made()
    revisions.put_slice("s1", ONE)
    revisions.put_slice("s2", TWO)
    revisions.put_burst("b", burst(), 0.0)
    revisions.put_burst("b", burst("web-00002"), 1.0)
    assert endpoints.functions() == {WEB: (Pod("10.0.0.3", 8012, 4),)}


def test_at_zero_pods_it_is_still_a_function() -> None:
    endpoints, revisions = made()
    revisions.put_slice("s1", private(ports=None))
    revisions.put_burst("b", burst(), 0.0)
    assert endpoints.functions() == {WEB: ()}


def test_without_a_revision_in_the_status_it_is_none() -> None:
    endpoints, revisions = made()
    revisions.put_slice("s1", ONE)
    revisions.put_burst("b", burst(), 0.0)
    assert revisions.put_burst("b", burst(None), 1.0)
    assert endpoints.functions() == {}
    revisions.put_burst("b", burst(), 2.0)
    revisions.put_burst("b", None, 3.0)
    assert endpoints.functions() == {}


def test_a_silent_controllers_functions_go_knatives_own_way() -> None:
    endpoints, revisions = made(60.0)
    revisions.put_slice("s1", ONE)
    revisions.put_burst("b", burst(observed="1"), 0.0)
    assert not revisions.look(60.0)
    revisions.put_burst("b", burst(observed="1"), 60.0)  # listed again: no news
    assert revisions.look(61.0)
    assert endpoints.functions() == {}
    assert revisions.put_burst("b", burst(observed="2"), 70.0)
    assert WEB in endpoints.functions()


def test_slices_of_other_watches_and_of_other_namespaces_change_nothing() -> None:
    endpoints, revisions = made()
    revisions.put_slice("s1", ONE)
    revisions.put_burst("b", burst(), 0.0)
    endpoints.keep_slices(set(), is_burst=True)
    elsewhere = private(endpoint("x", "10.9.9.9"))
    elsewhere = type(elsewhere)(Function("other", ""), *list(_fields(elsewhere))[1:])
    revisions.put_slice("s9", elsewhere)
    assert endpoints.functions() == {WEB: (Pod("10.0.0.1", 8012, 4),)}
    revisions.keep_slices({"s9"})
    assert endpoints.functions() == {}


def _fields(of: Slice) -> list[Any]:
    return [getattr(of, name) for name in of.__dataclass_fields__]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["slice", "burst", "look"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([None, "web-00001", "web-00002"]),
        st.sampled_from([0.0, 1.0, 61.0]),
    ),
    max_size=30,
)


@given(STEPS)
def test_in_any_order_a_function_has_what_its_state_says(steps: list[Any]) -> None:
    endpoints, revisions = made()
    slices: dict[str, str] = {}
    route: tuple[str, float] | None = None
    now_s, count = 0.0, 0
    for what, uid, revision, pause_s in steps:
        now_s, count = now_s + pause_s, count + 1
        if what == "slice":
            revisions.put_slice(
                uid, private(endpoint(uid, f"10.0.0.{ord(uid)}"), revision=revision) if revision else None
            )
            slices.pop(uid, None)
            if revision:
                slices[uid] = revision
        elif what == "burst":
            revisions.put_burst("uid-web", burst(revision, observed=str(count)), now_s)
            route = (revision, now_s) if revision else None
        revisions.look(now_s)
        wanted = [
            f"10.0.0.{ord(uid)}"
            for uid, of in sorted(slices.items())
            if route and of == route[0] and now_s - route[1] <= 60.0
        ]
        found = [pod.address for pods in endpoints.functions().values() for pod in pods]
        assert sorted(found) == wanted
