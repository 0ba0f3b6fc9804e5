"""What a placement answers, from what agents and the controller have said."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from burst_plane.model import Function, NodeState, Prepared, Started
from burst_plane.placement.desk import Desk
from burst_plane.wire.messages import AgentAddress, Directory, Listed

RESIZE = Function("shop", "resize")


def listed(function: Function = RESIZE, **changes: Any) -> Listed:
    plain = Listed(
        function=function, template="t1", mode="enforce", cpu_millis=1000, memory_bytes=100, longest_s=60.0,
        idempotent=False, most_instances=10,
    )  # fmt: skip
    return replace(plain, **changes)


def state(node: str, *functions: Function, **changes: Any) -> NodeState:
    prepared = tuple(
        Prepared(function=f, template="t1", image_present=True, created=2) for f in functions or (RESIZE,)
    )
    plain = NodeState(
        node=node, cpu_millis=4000, memory_bytes=1000, cpu_millis_free=4000, memory_bytes_free=1000,
        prepared=prepared,
    )  # fmt: skip
    return replace(plain, **changes)


def desk(*functions: Listed, nodes: str = "ab", **directory: Any) -> Desk:
    made = Desk()
    agents = tuple(AgentAddress(node=node, address="10.0.0.1", port=1) for node in nodes)
    made.take(Directory(term=1, sequence=1, functions=functions or (listed(),), agents=agents, **directory))
    for node in nodes:
        made.heard(node, state(node), 0.0)
    return made


def placed(of: Desk, request: str, now_s: float = 0.1, host: str = "resize.shop") -> str:
    """The node, or why not."""
    placing = of.place(host, request, now_s)
    return placing.reason or (placing.agent.node if placing.agent else "?")


def test_requests_at_once_spread_although_no_agent_has_spoken_since() -> None:
    of = desk()
    assert Counter(placed(of, f"r{i}") for i in range(9)) == {"a": 4, "b": 4, "no-budget": 1}


def test_what_an_agent_says_after_a_start_replaces_what_was_assumed() -> None:
    of = desk(nodes="a")
    assert [placed(of, f"r{i}") for i in range(5)] == ["a"] * 4 + ["no-budget"]
    for i in range(4):
        of.started(f"r{i}", Started(instance=f"i{i}", address="", port=1, origin="created", start_s=0.0), 0.2)
    of.heard("a", state("a", cpu_millis_free=2000), 0.1)  # written before they were started
    assert placed(of, "r5") == "no-budget"
    of.heard("a", state("a", cpu_millis_free=1000), 0.3)
    assert placed(of, "r6", 0.4) == "a"


def test_a_function_that_is_not_listed_is_unknown() -> None:
    assert placed(desk(), "r", host="other.shop") == "unknown"


def test_where_a_start_failed_that_function_is_not_asked_for_awhile() -> None:
    other = Function("shop", "crop")
    of = desk(listed(), listed(other))
    for node in "ab":
        of.heard(node, state(node, RESIZE, other), 0.0)
    of.rest("a", RESIZE, 0.1)
    assert {placed(of, f"r{i}", 0.2) for i in range(4)} == {"b"}
    assert placed(of, "o", 0.2, host="crop.shop") == "a"
    of.rest("b", RESIZE, 0.2)
    assert placed(of, "r5", 0.3) == "no-agents"
    of.heard("a", state("a"), 3.15)
    assert placed(of, "r6", 3.15) == "a"


def test_caps_of_function_and_namespace() -> None:
    of = desk(listed(most_instances=2))
    assert [placed(of, f"r{i}") for i in range(3)][2] == "function-cap"
    other = Function("shop", "crop")
    of = desk(listed(), listed(other), most_in_namespace=5, placements=2)
    of.heard("a", state("a", RESIZE, other), 0.0)
    answers = [placed(of, f"r{i}", host=("resize.shop", "crop.shop")[i % 2]) for i in range(4)]
    assert answers[3] == "namespace-cap"
    assert "cap" not in "".join(answers[:3])
    assert of.ended("r0")
    assert placed(of, "again") in "ab"


def test_shadow_decides_and_starts_nothing() -> None:
    of = desk(listed(mode="shadow"))
    assert placed(of, "r1") == "shadow"
    assert not of.running
    assert placed(desk(listed(mode="shadow"), nodes=""), "r1") == "no-agents"


def test_the_second_attempt_goes_elsewhere() -> None:
    of = desk()
    first = of.place("resize.shop", "r", 0.1)
    assert first.agent is not None
    of.failed("r")
    second = of.place("resize.shop", "r", 0.1, [first.agent.node])
    assert second.agent is not None
    assert second.agent.node != first.agent.node


def test_a_request_is_placed_once() -> None:
    of = desk()
    placed(of, "r")
    assert placed(of, "r") == "placed-before"


@pytest.mark.parametrize("silence_s", [3.1, 1000.0])
def test_silent_draining_and_lost_agents_are_not_asked(silence_s: float) -> None:
    assert placed(desk(), "r", silence_s) == "no-agents"
    of = desk(nodes="a")
    of.heard("a", state("a", draining=True), 0.0)
    assert placed(of, "r") == "no-agents"
    of.heard("a", state("a"), 0.0)
    of.lost("a")
    assert placed(of, "r") == "no-agents"


def test_an_older_directory_is_left_alone_and_a_newer_one_forgets_agents() -> None:
    of = desk()
    assert not of.take(Directory(term=0, sequence=9))
    assert not of.take(Directory(term=1, sequence=1))
    assert of.take(Directory(term=2, sequence=0, functions=(listed(),)))
    assert placed(of, "r") == "no-agents"
    of.heard("a", state("a"), 0.0)  # of no directory
    assert placed(of, "r") == "no-agents"


def test_an_instance_whose_end_was_never_told_is_forgotten_after_its_longest_time() -> None:
    of = desk()
    placed(of, "r")
    assert not of.overdue(80.0)
    assert list(of.overdue(91.0)) == ["r"]
    assert not of.running


def test_an_instance_of_a_request_that_has_ended_is_known_to_be_superfluous() -> None:
    of = desk()
    placed(of, "r")
    assert of.ended("r")
    assert not of.started("r", Started(instance="i", address="", port=1, origin="cold", start_s=0.0), 0.2)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "started", "failed", "ended", "heard", "overdue"]),
        st.integers(0, 9),
    ),
    max_size=60,
)


@settings(max_examples=100)
@given(STEPS)
def test_what_is_counted_is_what_runs(steps: list[tuple[str, int]]) -> None:
    """Whatever happens in whatever order: caps count each instance once, and nothing of it stays."""
    other = Function("else", "other")
    of = desk(listed(most_instances=3, longest_s=1.0), listed(other, longest_s=1.0), most_in_namespace=4)
    for at, (what, n) in enumerate(steps):
        now_s, request = 0.1 + at * 0.01, f"r{n}"
        if what == "place":
            of.place((RESIZE if n % 2 else other).host, request, now_s)
        elif what == "started":
            of.started(request, Started(instance="i", address="", port=1, origin="cold", start_s=0.0), now_s)
        elif what == "heard":
            node = "ab"[n % 2]
            of.heard(node, state(node, RESIZE, other), now_s)
            assert all(r.started_s >= now_s for r in of._assumed.get(node, {}).values())
        elif what == "overdue":
            of.overdue(now_s + n * 10)
        else:
            getattr(of, what)(request)
        runs = of.running
        assert of._of_function == Counter(r.function for r in runs.values())
        assert of._of_namespace == Counter(r.function.namespace for r in runs.values())
        assert of._of_function[RESIZE] <= 3
        assumed = {request: r for node in of._assumed.values() for request, r in node.items()}
        assert all(runs[request] == r for request, r in assumed.items())
        assert assumed.keys() >= {request for request, r in runs.items() if not r.instance}
