"""Eq. (6) in its two forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_model.contention import CONTENTION, PAPER, Contention, ContentionForm, Sharing

FORMS = st.builds(Sharing, side_by_side=st.floats(1.0, 16.0), latency=st.floats(0.0, 1.0))


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_the_papers_form_is_eq_6(jobs: int) -> None:
    assert PAPER.creation.slowdown(jobs) == jobs
    assert PAPER.resize.slowdown(jobs) == 1.0
    assert PAPER.work(jobs) == jobs


@pytest.mark.parametrize(
    ("sharing", "jobs", "expected"),
    [
        (Sharing(2.0, 0.0), 2, 1.0),  # two run side by side
        (Sharing(2.0, 0.0), 5, 2.5),
        (Sharing(1.0, 0.25), 4, 0.25 + 0.75 * 4),
        (Sharing(2.0, 0.5), 8, 0.5 + 0.5 * 4),
    ],
)
def test_slowdown(sharing: Sharing, jobs: int, expected: float) -> None:
    assert sharing.slowdown(jobs) == pytest.approx(expected)


def test_a_container_more_is_less_work_than_a_pod() -> None:
    contention = Contention(PAPER.creation, PAPER.resize, extra_container=0.25)
    assert [contention.work(m) for m in (0, 1, 2, 5)] == [1.0, 1.0, 1.25, 2.0]


@given(FORMS, st.integers(1, 200))
def test_alone_is_full_speed_and_more_jobs_are_never_faster(sharing: Sharing, jobs: int) -> None:
    assert sharing.slowdown(1) == pytest.approx(1.0)
    assert sharing.slowdown(jobs) <= sharing.slowdown(jobs + 1) + 1e-12


@given(FORMS, st.integers(1, 200))
def test_each_further_job_costs_at_least_as_much_as_the_one_before(sharing: Sharing, jobs: int) -> None:
    """The planner's split of creations and resizes rests on this."""
    before, now, then = (sharing.slowdown(j) for j in (jobs, jobs + 1, jobs + 2))
    assert then - now >= now - before - 1e-9


def test_every_form_has_its_constants() -> None:
    assert set(CONTENTION) == set(ContentionForm)
