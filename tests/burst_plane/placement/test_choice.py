"""Which node gets an emergency instance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.burst_function import Variant
from burst_plane.placement.choice import Candidate, Need, choose

NEED = Need(1000, 100)
PLAIN = Candidate("a", 4000, 4000, 1000, 0, 0, image_present=True)


def best(*candidates: Candidate, turn: int = 0) -> str:
    return choose(candidates, NEED, Variant.BEST, turn)[0]


def test_frozen_before_created_before_an_image_and_never_without() -> None:
    nothing = replace(PLAIN, node="d", image_present=False)
    image = replace(PLAIN, node="c")
    created = replace(PLAIN, node="b", created=1)
    frozen = replace(PLAIN, node="z", frozen=1)
    assert best(nothing, image, created, frozen) == "z"
    assert best(nothing, image, created) == "b"
    assert best(nothing, image) == "c"
    assert choose([nothing], NEED, Variant.BEST, 0) == ("", "not-prepared")


def test_a_faster_node_is_preferred_and_a_busy_one_avoided() -> None:
    slow, fast = replace(PLAIN, created=5, speed=0.5), replace(PLAIN, node="b", created=5, speed=2.0)
    assert best(slow, fast) == "b"
    assert best(slow, replace(fast, starting=9)) == "a"
    emptier = replace(PLAIN, node="b", created=5)
    assert best(replace(PLAIN, created=5, cpu_millis_free=1000), emptier) == "b"


def test_without_room_nobody_is_asked_but_the_paper_asks_everybody() -> None:
    full = replace(PLAIN, cpu_millis_free=999)
    assert choose([full], NEED, Variant.BEST, 0) == ("", "no-budget")
    assert choose([replace(PLAIN, memory_bytes_free=99)], NEED, Variant.BEST, 0) == ("", "no-budget")
    assert choose([full], NEED, Variant.PAPER, 0) == ("a", "")
    for variant in Variant:
        assert choose([], NEED, variant, 0) == ("", "no-agents")


def test_an_agent_that_boasts_is_not_better_than_a_ready_one() -> None:
    boasts = Candidate("a", -1, 1 << 62, 1 << 62, 0, 0, image_present=True)
    vast = Candidate("b", 1, 1 << 62, 1 << 62, 0, 0, image_present=True)
    ready = Candidate("c", 4000, 4000, 300, 1, 0, image_present=True)
    assert choose([boasts, vast, ready], NEED, Variant.BEST, 0) == ("c", "")


def test_round_robin_and_turns_among_equals() -> None:
    nodes = [replace(PLAIN, node=name) for name in "abc"]
    for variant in Variant:
        asked = Counter(choose(nodes, NEED, variant, turn)[0] for turn in range(30))
        assert asked == {"a": 10, "b": 10, "c": 10}


candidates = st.lists(
    st.builds(
        Candidate,
        node=st.sampled_from("abcdefgh"),
        cpu_millis=st.just(4000),
        cpu_millis_free=st.integers(-500, 4000),
        memory_bytes_free=st.integers(-10, 300),
        frozen=st.integers(0, 2),
        created=st.integers(0, 2),
        image_present=st.booleans(),
        starting=st.integers(0, 9),
        speed=st.floats(0.1, 3.0),
    ),
    unique_by=lambda c: c.node,
    max_size=8,
)


@settings(max_examples=50)
@given(candidates, st.integers(0, 100))
def test_the_best_has_room_and_is_prepared_or_there_is_none(nodes: list[Candidate], turn: int) -> None:
    fits = {c.node for c in nodes if c.has_room(NEED) and (c.image_present or c.created or c.frozen)}
    node, reason = choose(nodes, NEED, Variant.BEST, turn)
    assert node in fits if fits else (not node and reason)
    assert bool(node) is not bool(reason)
