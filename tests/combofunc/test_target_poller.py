"""Targets that the collector owns."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from combofunc.reconcile.spec import ComboFunc, read
from combofunc.settings import Settings
from combofunc.target_poller import TargetPoller
from surgekit.prometheus.client import Labels
from tests.combofunc.function_in_world import combofunc


class Says:
    """A Prometheus that answers every query with one series."""

    def __init__(self, value: float) -> None:
        self.value = value

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        return {frozenset(): self.value}


def asked() -> ComboFunc:
    return read(combofunc(None, targetFrom="Collector", collector={"query": "sum(x)"}))


def collecting(prometheus: Says, leads: bool, changed: list[str]) -> TargetPoller:
    function = asked()
    return TargetPoller(
        Settings(collect_every_s=0.01),
        prometheus,
        lambda: leads,
        lambda: {function.uid: function},
        changed.append,
    )


def test_it_is_told_when_the_answer_is_another() -> None:
    prometheus, changed = Says(6.5), list[str]()
    there = collecting(prometheus, True, changed)
    assert there.target(asked()) == "Prometheus has not been asked yet"
    deadline_s = time.monotonic() + 10
    for value, target in ((6.5, 7), (20.0, 20), (1e5 + 1, "above the limit of 100000")):
        prometheus.value = value
        while not str(there.target(asked())).endswith(str(target)):
            assert time.monotonic() < deadline_s
            assert there.step() == 0.01
            time.sleep(0.005)
    there.stop()
    assert changed[:3] == ["function"] * 3


def test_only_the_leader_asks() -> None:
    changed = list[str]()
    there = collecting(Says(1.0), False, changed)
    there.step()
    assert changed == []


class Hangs(Says):
    """For queries of one metric, until released."""

    def __init__(self) -> None:
        super().__init__(2.0)
        self.release, self.hung = threading.Event(), threading.Event()

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        if "slow" in query:
            self.hung.set()
            assert self.release.wait(90)
        return super().values(query, at_s)


def test_a_slow_query_of_one_namespace_holds_up_nobody_else() -> None:
    functions = {}
    for namespace, query in (("noisy", "slow"), ("quiet", "sum(x)")):
        obj = combofunc(None, targetFrom="Collector", collector={"query": query})
        obj["metadata"] |= {"namespace": namespace, "uid": namespace}
        functions[namespace] = read(obj)
    prometheus, changed = Hangs(), list[str]()
    there = TargetPoller(Settings(), prometheus, lambda: True, lambda: functions, changed.append)
    try:
        for _ in range(3):
            there.step()
            assert prometheus.hung.wait(90)
        deadline_s = time.monotonic() + 90
        while there.target(functions["quiet"]) != 2:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        assert there.target(functions["noisy"]) == "Prometheus has not been asked yet"
    finally:
        prometheus.release.set()
        there.stop()
