from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_model.contention import PAPER
from node_speed_probe.model import PodSeen, PullEnded, PullStarted, Sample, Stage
from node_speed_probe.pulls import duration_s, pull_event
from node_speed_probe.resizes import ResizeTracker
from node_speed_probe.sources import node_seen, pod_seen, pull_seen


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1.2s", 1.2), ("850ms", 0.85), ("1m2.5s", 62.5), ("2h0m3s", 7203.0), ("15.3µs", 15.3e-6),
        ("0s", 0.0), ("9ns", 9e-9), ("", None), ("5", None), ("1s2", None), ("-1s", None), ("1x", None),
    ],
)  # fmt: skip
def test_go_durations(text: str, seconds: float | None) -> None:
    found = duration_s(text)
    assert found == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("Pulling", 'Pulling image "nginx"', PullStarted("p", "nginx:latest")),
        (
            "Pulled",
            'Successfully pulled image "r.io/a:1" in 1.25s (3s including waiting). Image size: 77 bytes.',
            PullEnded("p", "r.io/a:1", "n", 1.25, 77),
        ),
        (
            "Pulled",
            'Successfully pulled image "a:1" in 1m0.5s (1m1s including waiting)',
            PullEnded("p", "a:1", "n", 60.5),
        ),
        ("Pulled", 'Successfully pulled image "a:1" in 850ms', PullEnded("p", "a:1", "n", 0.85)),
        ("Pulled", 'Container image "a:1" already present on machine', PullEnded("p", "a:1", "n")),
        (
            "Pulled",
            'Container image "a:1" already present on machine and can be accessed by the pod',
            PullEnded("p", "a:1", "n"),
        ),
        ("Pulled", "something new", None),
        ("Started", "Started container app", None),
        ("Pulling", "", None),
    ],
)
def test_kubelet_messages(reason: str, message: str, expected: Any) -> None:
    assert pull_event(reason, message, "p", "n") == expected


def event(**rest: Any) -> dict[str, Any]:
    return {"reason": "Pulling", "message": 'Pulling image "a:1"', "involvedObject": {"uid": "p"}, **rest}


def test_an_event_names_its_node_in_the_old_way_or_the_new() -> None:
    pulled = {"reason": "Pulled", "message": 'Container image "a:1" already present on machine'}
    assert pull_seen(event()) == PullStarted("p", "a:1")
    assert pull_seen(event(**pulled, source={"host": "n"})) == PullEnded("p", "a:1", "n")
    assert pull_seen(event(**pulled, reportingInstance="n")) == PullEnded("p", "a:1", "n")


def pod(status: dict[str, Any], spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    spec = {"nodeName": "n", "containers": [{"name": "a", "image": "a"}]} | (spec or {})
    return {"metadata": {"uid": "p", **metadata}, "spec": spec, "status": status}


def states(*found: dict[str, Any], **rest: Any) -> list[dict[str, Any]]:
    return [{"name": name, "state": state, **rest} for name, state in zip("abc", found, strict=False)]


RUNNING: dict[str, Any] = {"running": {}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}
BACK_OFF = {"waiting": {"reason": "ImagePullBackOff"}}
INIT = {"initContainers": [{"name": "a", "image": "i"}]}
SIDECAR = {"initContainers": [{"name": "a", "image": "i", "restartPolicy": "Always"}]}


@pytest.mark.parametrize(
    ("obj", "stage", "broken_by"),
    [
        (pod({}), Stage.CREATING, ""),
        (pod({"phase": "Pending", "containerStatuses": states(WAITING)}), Stage.CREATING, ""),
        (pod({"containerStatuses": states(RUNNING)}), Stage.STARTED, ""),
        (pod({"containerStatuses": states({"terminated": {}})}), Stage.STARTED, ""),
        (pod({"containerStatuses": states(RUNNING, restartCount=1)}), Stage.STARTED, "Restarted"),
        (pod({"containerStatuses": states(BACK_OFF)}), Stage.BROKEN, "ImagePullBackOff"),
        (pod({"initContainerStatuses": states(BACK_OFF)}, INIT), Stage.BROKEN, "ImagePullBackOff"),
        (pod({"phase": "Failed"}), Stage.BROKEN, "Failed"),
        (pod({"phase": "Succeeded"}), Stage.STARTED, ""),
        (pod({}, deletionTimestamp="2026-01-01T00:00:00Z"), Stage.BROKEN, "Deleted"),
        (pod({"initContainerStatuses": states(RUNNING)}, INIT), Stage.RUNNING_INIT, ""),
        (pod({"initContainerStatuses": states({"terminated": {}})}, INIT), Stage.CREATING, ""),
        (pod({"initContainerStatuses": states(RUNNING)}, SIDECAR), Stage.CREATING, ""),
    ],
)
def test_how_far_a_pod_is(obj: dict[str, Any], stage: Stage, broken_by: str) -> None:
    seen = pod_seen(obj)
    assert seen is not None
    assert (seen.stage, seen.broken_by) == (stage, broken_by)


def test_a_pod_that_waits_for_a_node_is_not_being_created() -> None:
    assert pod_seen(pod({}, {"nodeName": ""})) is None


def test_every_container_has_to_be_created() -> None:
    seen = pod_seen(pod({}, INIT))
    assert seen is not None
    assert (seen.containers, seen.images) == (2, ("i:latest", "a:latest"))


def test_node_images_are_spelt_as_in_pods() -> None:
    status = {
        "images": [{"names": ["docker.io/library/a@sha256:0", "docker.io/library/a:latest"]}, {"names": None}]
    }
    assert "a:latest" in node_seen({"metadata": {"name": "n", "uid": "u"}, "status": status}).images


def resized(wanted: str, actual: str | None, pending: bool = False) -> PodSeen:
    """A running pod that asks for `wanted` cores and has `actual`."""
    status = {"containerStatuses": states(RUNNING)}
    if actual:
        status["containerStatuses"][0]["resources"] = {"requests": {"cpu": actual}}
    if pending:
        status["conditions"] = [{"type": "PodResizePending", "status": "True"}]
    container = {"name": "a", "image": "a", "resources": {"requests": {"cpu": wanted}}}
    seen = pod_seen(pod(status, {"containers": [container]}))
    assert seen is not None
    return seen


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([(0, "1", "1"), (5, "2", "1"), (5.5, "2", "2000m")], [Sample(5, 5.5, 0.5)]),
        ([(0, "1", "1"), (5, "1000m", "1")], []),  # another spelling is no change
        ([(0, "1", "1"), (5, "2", "2")], []),
        ([(0, "1", None), (5, "2", None), (6, "2", "2"), (7, "2", "2")], [Sample(5, 6, 1.0)]),
        ([(0, "1", "1"), (5, "2", "1"), (6, "3", "1"), (8, "3", "3")], [Sample(6, 8, 2.0)]),
        ([(0, "2", "1"), (3, "2", "2")], []),  # its start was not seen
    ],
)
def test_resizes(told: list[tuple[float, str, str | None]], expected: list[Sample]) -> None:
    tracker = ResizeTracker(PAPER.resize)
    found = [tracker.observe(resized(wanted, actual), at_s) for at_s, wanted, actual in told]
    assert [f for f in found if f] == [("n", sample) for sample in expected]


def test_waiting_for_room_is_not_resizing() -> None:
    tracker = ResizeTracker(PAPER.resize)
    tracker.observe(resized("1", "1"), 0.0)
    tracker.observe(resized("9", "1"), 1.0)
    tracker.observe(resized("9", "1", pending=True), 2.0)
    assert tracker.observe(resized("9", "9"), 300.0) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.text(max_size=80), st.text(max_size=10))
def test_no_event_text_breaks_it(message: str, reason: str) -> None:
    pull_event(reason, message, "p", "n")
    pull_event("Pulled", f'Successfully pulled image "a" in {message}', "p", "n")
    duration_s(message)


@given(st.dictionaries(st.sampled_from(["cpu", "memory"]), JSON))
def test_absurd_amounts_are_no_amounts(amounts: dict[str, Any]) -> None:
    container = {"name": "a", "image": "a", "resources": {"requests": amounts}}
    assert pod_seen(pod({}, {"containers": [container]})) is not None


def test_a_duration_of_60_kb_is_none_and_that_is_found_at_once() -> None:
    assert duration_s("1" * 60_000) is None
    message = f'Successfully pulled image "x" in 1s. Image size: {"9" * 60_000} bytes'
    assert pull_event("Pulled", message, "uid", "node") is not None
