"""When a plan is due."""

from __future__ import annotations

from cluster_autoscaler_hook.karpenter.batch import Batch
from cluster_autoscaler_hook.karpenter.settings import Settings

SETTINGS = Settings(batch_idle_s=1.0, batch_max_s=3.0)


def test_a_plan_waits_until_no_more_pods_come() -> None:
    batch = Batch(SETTINGS)
    assert batch.due_in_s(frozenset(), "w", 0.0) is None
    assert batch.due_in_s(frozenset("a"), "w", 0.0) == 1.0
    assert batch.due_in_s(frozenset("ab"), "w", 0.5) == 1.0
    assert batch.due_in_s(frozenset("ab"), "w", 1.5) == 0.0


def test_pods_that_keep_coming_do_not_put_it_off_for_ever() -> None:
    batch = Batch(SETTINGS)
    for i in range(30):
        due = batch.due_in_s(frozenset(map(str, range(i + 1))), "w", i / 10)
    assert due is not None
    assert due <= 0.1 + 1e-9


def test_the_same_question_is_not_answered_twice_at_once() -> None:
    batch = Batch(SETTINGS)
    batch.due_in_s(frozenset("a"), "w", 0.0)
    batch.planned(frozenset("a"), "w", 1.0)
    assert batch.due_in_s(frozenset("a"), "w", 1.1) == 9.9
    assert batch.due_in_s(frozenset("a"), "w", 30.0) == 0.0
    assert batch.due_in_s(frozenset("a"), "prices changed", 1.2) == 0.0
    assert batch.due_in_s(frozenset("ab"), "w", 2.0) == 1.0
