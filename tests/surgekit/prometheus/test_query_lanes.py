"""One tenant's slow queries are its own affair."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pytest

from surgekit.prometheus import client
from surgekit.prometheus.client import Labels, QueryBatch, QueryFailed, TimedOut
from surgekit.prometheus.query_lanes import _AT_ONCE, Lanes

ONE: Mapping[Labels, float] = {frozenset(): 1.0}


class Slow:
    """Queries with `slow` in them time out; with `hang` they wait until released."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.release = threading.Event()
        self.hanging = threading.Semaphore(0)

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        self.asked.append(query)
        if "hang" in query:
            self.hanging.release()
            assert self.release.wait(90)
        if "slow" in query:
            raise TimedOut("timed out")
        return ONE


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def ask(lanes: Lanes, tenant: str, *queries: str) -> dict[str, object]:
    """What came of each; waits for it."""
    found: dict[str, object] = {}

    def work(batch: QueryBatch) -> None:
        for query in queries:
            try:
                found[query] = batch.own(query, tenant)
            except QueryFailed as error:
                found[query] = str(error)

    assert lanes.begin(tenant, 1.0, work)
    lanes.wait()
    return found


def test_three_slow_queries_of_one_silence_nobody_else() -> None:
    lanes = Lanes(Slow(), longest_s=10.0)
    found = ask(lanes, "noisy", "slow_1", "slow_2", "slow_3", "quick")
    assert set(found.values()) == {"timed out"}, "a tenant's fourth is not sent either"
    assert ask(lanes, "quiet", "quick") == {"quick": ONE}


def test_who_was_slow_is_paused_alone_and_longer_each_time() -> None:
    prometheus, clock = Slow(), Clock()
    lanes = Lanes(prometheus, longest_s=10.0, clock=clock)
    for pause_s in (5, 10, 20, 40, 80, 160, 320, 600, 600):
        ask(lanes, "noisy", "slow")
        sent = len(prometheus.asked)
        clock.now_s += pause_s - 1
        why = f"queries of noisy took too long: none is sent for {pause_s} s"
        assert ask(lanes, "noisy", "quick") == {"quick": why}
        assert len(prometheus.asked) == sent
        assert ask(lanes, "quiet", "quick") == {"quick": ONE}
        clock.now_s += 2
    assert ask(lanes, "noisy", "quick") == {"quick": ONE}
    ask(lanes, "noisy", "slow")
    assert "none is sent for 5 s" in str(ask(lanes, "noisy", "quick")), "a quick round starts it over"


def test_a_tenant_has_one_round_at_a_time_and_others_go_on_meanwhile() -> None:
    prometheus = Slow()
    lanes = Lanes(prometheus, longest_s=10.0)

    def hang(batch: QueryBatch) -> None:
        batch.own("hang", "noisy")

    assert lanes.begin("noisy", 1.0, hang)
    assert prometheus.hanging.acquire(timeout=90)
    for _ in range(2 * _AT_ONCE):
        assert not lanes.begin("noisy", 1.0, hang)
    done = threading.Event()

    def quick(batch: QueryBatch) -> None:
        batch.own("quick", "quiet")
        done.set()

    assert lanes.begin("quiet", 1.0, quick)
    assert done.wait(90)
    assert lanes.busy("noisy")
    assert not prometheus.hanging.acquire(blocking=False)
    prometheus.release.set()
    lanes.wait()
    assert not lanes.busy("noisy")


def test_the_time_of_a_tenants_queries_together_is_limited() -> None:
    prometheus = Slow()
    lanes = Lanes(prometheus, longest_s=0.0)
    why = "queries took 0 s together, which is all they may take"
    assert ask(lanes, "noisy", "quick", "another") == {"quick": why, "another": why}
    assert prometheus.asked == []
    assert "took too long" in str(ask(lanes, "noisy", "quick"))


def test_the_time_to_read_a_tenants_queries_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read in turn with everybody else's work: no two threads of a process run Python at once."""
    read: list[str] = []

    def slowly(query: str, namespace: str) -> str:
        read.append(query)
        time.sleep(0.02)
        return f'{query}{{namespace="{namespace}"}}'

    monkeypatch.setattr(client, "confined", slowly)
    lanes = Lanes(Slow(), longest_s=0.05)
    found = ask(lanes, "noisy", *(f"quick_{i}" for i in range(50)))
    assert len(read) <= 3
    assert "which is all they may take" in str(found["quick_49"])
    assert "took too long" in str(ask(lanes, "noisy", "quick"))


def test_a_fault_of_ours_ends_nothing() -> None:
    lanes = Lanes(Slow(), longest_s=10.0)

    def fault(batch: QueryBatch) -> None:
        raise RuntimeError(batch)

    assert lanes.begin("a", 1.0, fault)
    lanes.wait()
    assert ask(lanes, "a", "quick") == {"quick": ONE}


def test_own_promql_is_confined_unless_an_administrator_permits_more() -> None:
    prometheus = Slow()
    ask(Lanes(prometheus, 10.0), "shop", "quick")
    ask(Lanes(prometheus, 10.0, confine=False), "shop", "quick")
    assert prometheus.asked == ['quick{namespace="shop"}', "quick"]
    found = ask(Lanes(prometheus, 10.0), "shop", 'a{namespace="bank"}')
    assert "a matcher on namespace must be" in str(found)
