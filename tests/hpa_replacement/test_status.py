"""The state of decisions through the API server and back."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.decision.model import KnownKnee, Sample, Scaling, Spending, State
from hpa_replacement.search import Point, SearchState, Variant
from hpa_replacement.status import read_state, status_of
from surgekit.decision import Decision
from surgekit.kube.conditions import stamp
from tests.fake_api_server.patches import merge

amounts = st.floats(0, 1e9)
replicas = st.integers(1, 100_000)
points = st.lists(st.builds(Point, replicas, amounts, amounts, amounts), max_size=4).map(tuple)
known = st.lists(
    st.builds(KnownKnee, amounts, amounts, replicas, st.booleans(), st.booleans()), max_size=4
).map(tuple)


@st.composite
def searches(draw: st.DrawFn) -> SearchState:
    left, reach, right = sorted(draw(st.tuples(replicas, replicas, replicas)))
    variant, seed = draw(st.sampled_from(Variant)), draw(st.integers(0, 99))
    return SearchState(
        variant, left, right, reach, seed, draw(points), draw(points), draw(st.none() | replicas)
    )


states = st.builds(
    State, known, points, st.none() | searches(), st.integers(0, 99), amounts, st.booleans(),
    st.none() | st.integers(0, 99), amounts, st.integers(0, 99), st.booleans(), st.integers(0, 9),
    st.none() | amounts, st.lists(amounts, max_size=4).map(tuple),
    st.none() | st.builds(Spending, amounts, amounts),
    st.none() | amounts,
)  # fmt: skip


def through_the_api_server(before: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """JSON, and a merge patch: what is None goes."""
    return orjson.loads(orjson.dumps(merge(before, status)))  # type: ignore[no-any-return]


@given(states, states)
def test_a_state_comes_back_as_it_was(earlier: State, state: State) -> None:
    """Whatever was written there before it."""
    before = through_the_api_server({}, status_of(Decision(Scaling(None, earlier)), None, 1, 0.0))
    status = through_the_api_server(before, status_of(Decision(Scaling(None, state)), None, 1, 0.0))
    assert read_state(status) == state


def test_no_status_is_a_new_state() -> None:
    assert read_state({}) == State()
    assert read_state({"conditions": [], "observedGeneration": 3}) == State()


FULL = through_the_api_server(
    {},
    status_of(
        Decision(
            Scaling(
                4,
                State(
                    known=(KnownKnee(10.0, 20.0, 4),),
                    evidence=(Point(4, 5.0, 10.0, 2.0),),
                    search=SearchState(Variant.BEST, 1, 40, 40, points=(Point(1, 1.0),)),
                    spending=Spending(5.0, 6.0),
                    asked=4,
                ),
            )
        ),
        None, 4, 0.0,
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "rubbish"),
    [
        ("scaling", "x"),
        ("scaling.asked", "many"),
        ("scaling.asked", 4.5),
        ("scaling.asked", -4),
        ("scaling.searched_from", -1),
        ("scaling.decided_at_s", "yesterday"),
        ("scaling.stopped", 1),
        ("scaling.evidence", [[1, 2]]),
        ("scaling.evidence", [[1, -2.0, 3.0, 4.0]]),
        ("scaling.evidence", "abc"),
        ("knownKnees", [{}]),
        ("knownKnees", ["x"]),
        ("knownKnees", [{"throughputPerSecond": 1.0, "concurrency": 1.0, "replicas": 0}]),
        ("search", {"variant": "best"}),
        ("search", [1]),
        ("search.variant", "binary"),
        ("search.left", 0),
        ("search.points", [[1]]),
        ("search.points", 7),
        ("search.enough", "x"),
        ("budget", {"windowStart": 1}),
        ("budget.spent", "all"),
    ],
)
def test_somebody_elses_rubbish_is_refused(path: str, rubbish: Any) -> None:
    status = orjson.loads(orjson.dumps(FULL))
    *parts, last = path.split(".")
    at = status
    for part in parts:
        at = at[part]
    at[last] = rubbish
    with pytest.raises(ValueError, match="status cannot be read"):
        read_state(status)


def test_what_users_see() -> None:
    state = State(asked=4)
    sample = Sample(3, 3, 0.0, 100.0, 130.5, 12.34567, 0.0, 0.123456789, None, 40)
    status = status_of(Decision(Scaling(4, state), ("because", "and")), sample, 3, 1_800_000_000.25)
    assert (status["replicas"], status["targetReplicas"]) == (3, 4)
    assert status["decidedAt"] == "2027-01-15T08:00:00.250Z"
    assert status["lastDecision"]["reason"] == "because"
    assert status["lastSample"] == {
        "at": stamp(130.5), "replicas": 3, "readyReplicas": 3, "throughputPerSecond": 12.3457,
        "errorsPerSecond": 0.0, "latencySeconds": 0.123457, "cpuUtilisation": None, "capacity": 40,
    }  # fmt: skip
    assert status["lastDecision"]["inputsAgeSeconds"] == {"sample": None}
    assert "lastSample" not in status_of(Decision(Scaling(None, state)), None, 3, 0.0), "the last one stays"


def test_the_age_of_a_sample_goes_with_the_sample() -> None:
    def ages(before: dict[str, Any], **ages_s: float) -> dict[str, Any]:
        return through_the_api_server(
            before, status_of(Decision(Scaling(None, State()), (), ages_s), None, 3, 0.0)
        )

    with_sample = ages({}, pods=0.26, nodes=float("inf"), sample=0.5)
    assert with_sample["lastDecision"]["inputsAgeSeconds"] == {"pods": 0.3, "sample": 0.5}
    assert ages(with_sample, pods=1.0)["lastDecision"]["inputsAgeSeconds"] == {"pods": 1.0}
