"""What a BurstFunction's conditions say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.conditions import REASONS, Readiness, conditions, overflows
from burst_plane.model import Function, Prepared
from surgekit.process.modes import Mode

F = Function("shop", "resize")


def prepared(image: bool = True, created: int = 2, error: str = "") -> Prepared:
    return Prepared(function=F, template="t", image_present=image, created=created, error=error)


NONE, ONE = Readiness(0), Readiness(1, (("n1", prepared()),))
# mode, reason of the resolution, readiness: (Eligible, Overflow, Ready), each status and reason
TABLE = [
    (Mode.ENFORCE, "Eligible", ONE, (True, "Eligible"), (True, "Enforcing"), (True, "Prepared")),
    (Mode.SHADOW, "Eligible", ONE, (True, "Eligible"), (True, "Shadow"), (True, "Prepared")),
    (Mode.ENFORCE, "Eligible", NONE, (True, "Eligible"), (False, "NoAgents"), (False, "NoAgents")),
    (Mode.ENFORCE, "Eligible", Readiness(1), (True, "Eligible"), (True, "Enforcing"), (False, "Preparing")),
    (
        Mode.ENFORCE, "Eligible", Readiness(1, (("n1", prepared(False, 0, "no such image")),)),
        (True, "Eligible"), (True, "Enforcing"), (False, "CannotPrepare"),
    ),
    (
        Mode.ENFORCE, "Eligible",
        Readiness(2, (("n1", prepared(False, 0, "no such image")), ("n2", prepared()))),
        (True, "Eligible"), (True, "Enforcing"), (True, "Prepared"),
    ),
    (Mode.ENFORCE, "Resolving", ONE, (None, "Resolving"), (False, "NotEligible"), (False, "NotEligible")),
    (Mode.ENFORCE, "Refused", ONE, (False, "Refused"), (False, "NotEligible"), (False, "NotEligible")),
    (Mode.OFF, "Off", ONE, (False, "Off"), (False, "Off"), (False, "NotEligible")),
    (
        Mode.ENFORCE, "InvalidSpec", ONE,
        (False, "InvalidSpec"), (False, "InvalidSpec"), (False, "InvalidSpec"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("mode", "reason", "readiness", "eligible", "overflow", "ready"), TABLE)
def test_conditions(
    mode: Mode, reason: str, readiness: Readiness, eligible: object, overflow: object, ready: object
) -> None:
    said = {c.type: (c.holds, c.reason) for c in conditions(mode, reason, "why", readiness)}
    assert said == {"Eligible": eligible, "Overflow": overflow, "Ready": ready}


def test_an_error_of_one_node_is_shown_beside_what_is_prepared() -> None:
    readiness = Readiness(2, (("n1", prepared(False, 0, "disk full")), ("n2", prepared())))
    message = conditions(Mode.ENFORCE, "Eligible", "", readiness)[2].message
    assert message == "2 instances on 1 nodes; n1: disk full"


@given(
    st.sampled_from(Mode),
    st.sampled_from(REASONS["Eligible"]),
    st.integers(0, 3),
    st.lists(st.builds(prepared, st.booleans(), st.integers(0, 9), st.text(max_size=9)), max_size=3),
)
def test_overflow_is_said_exactly_if_requests_may_overflow(
    mode: Mode, reason: str, agents: int, of: list[Prepared]
) -> None:
    """HAProxy goes by the condition, placements by the directory: they must agree."""
    readiness = Readiness(agents, tuple((f"n{i}", p) for i, p in enumerate(of)))
    said = {c.type: c for c in conditions(mode, reason, "why", readiness)}
    assert said["Overflow"].holds == (reason == "Eligible" and overflows(mode, readiness))
    assert all(c.reason in REASONS[c.type] and c.message for c in said.values())
