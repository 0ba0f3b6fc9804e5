"""Plans in threads of their own: fair to namespaces, never late, and nobody waits for a slow one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from combofunc.metrics import ComboFuncMetrics
from combofunc.planner import planning
from combofunc.planner.model import Container, Node, Plan, PlanRequest
from combofunc.planning_desk import PlanningDesk
from combofunc.pods.actions import Create
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.pods.steps import Room as Left
from combofunc.reconcile.plan_result import is_stale, make_plan
from combofunc.reconcile.planner_input import PlannerInput, pod_shape
from combofunc.reconcile.spec import read
from combofunc.reconciler import ComboFuncReconciler, Inputs
from combofunc.settings import Settings
from tests.combofunc.function_in_world import combofunc
from tests.combofunc.immediate_desk import Told
from tests.combofunc.pods.world import node

Json = dict[str, Any]
PATIENCE_S = 60.0


class SlowForSome:
    """The planner; a target above 1,000 waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.targets: list[int] = []

    def __call__(self, request: PlanRequest) -> Plan:
        self.targets.append(request.target)
        if request.target > 1000:
            assert self.go.wait(PATIENCE_S)
        return planning.plan(replace(request, target=min(request.target, 16)))


class Room:
    """A loop's inbox, and functions with a desk behind it."""

    def __init__(self, nodes: int = 4) -> None:
        self.planner, self.touched = SlowForSome(), list[str]()
        self._inbox: deque[Callable[[], None]] = deque()
        self._posted = threading.Semaphore(0)
        self.desk = PlanningDesk(self.planner, self._post, self.touched.append)
        self.cluster = Cluster(1.0, 0.1, 2.0, 120.0)
        for i in range(nodes):
            self.cluster.put_node(node(f"node-{i}"))
        inputs = Inputs(self.cluster, PodTable(), lambda _: "")
        self.functions = ComboFuncReconciler(inputs, Settings(), self.desk, ComboFuncMetrics(), Told())

    def _post(self, change: Callable[[], None]) -> None:
        self._inbox.append(change)
        self._posted.release()

    def take_in(self) -> None:
        """The next answer."""
        assert self._posted.acquire(timeout=PATIENCE_S)
        self._inbox.popleft()()

    def add(self, uid: str, namespace: str, target: int) -> None:
        obj = combofunc(target)
        obj["metadata"] |= {"name": uid, "namespace": namespace, "uid": uid}
        self.functions.objects[uid] = obj

    def creations(self, uid: str) -> int:
        work = self.functions.reconcile(uid, 1_000_000.0)
        assert work is not None
        return sum(isinstance(action, Create) for action in work.actions)


@pytest.fixture
def room() -> Iterator[Room]:
    room = Room()
    yield room
    room.planner.go.set()
    room.desk.stop()


def test_a_slow_plan_delays_no_other_namespace(room: Room) -> None:
    """Without threads of its own the first look would not come back."""
    room.add("hostile", "a", 5000)
    room.add("hostile-too", "a", 5001)
    room.add("other", "b", 8)
    assert room.creations("hostile") == room.creations("hostile-too") == room.creations("other") == 0
    room.take_in()
    assert room.touched == ["other"]
    assert room.creations("other") == 1
    assert room.planner.targets == [5000, 8], "one plan at a time for a namespace"
    room.planner.go.set()
    room.take_in()
    assert room.touched == ["other", "hostile"]
    assert room.creations("hostile") > 0


def test_many_of_one_namespace_do_not_go_before_one_of_another(room: Room) -> None:
    for i in range(20):
        room.add(f"many-{i}", "a", 5000 + i)
        room.creations(f"many-{i}")
    room.add("second", "b", 5100)
    room.creations("second")  # both threads are taken now
    room.add("third", "c", 7)
    room.creations("third")
    room.planner.go.set()
    for _ in range(3):
        room.take_in()
        room.desk.cancel(room.touched[-1])
    assert room.planner.targets.index(7) == 2, "before the 19 that came first"


def test_an_answer_for_what_is_not_wanted_any_more_is_dropped(room: Room) -> None:
    room.add("web", "a", 5000)
    room.creations("web")
    room.add("web", "a", 3)
    assert room.creations("web") == 0
    room.planner.go.set()
    room.take_in()
    assert room.touched == [], "there is nothing to look at"
    room.desk.hand_out()
    room.take_in()
    assert room.creations("web") == 1
    assert room.planner.targets == [5000, 3]


def test_it_waits_once_however_often_it_asks(room: Room) -> None:
    room.add("web", "a", 5000)
    for _ in range(10):
        room.creations("web")
    room.planner.go.set()
    room.take_in()
    room.creations("web")
    room.desk.hand_out()
    assert room.planner.targets == [5000]


def test_after_a_change_of_leader_old_answers_are_nobodys(room: Room) -> None:
    room.add("web", "a", 5000)
    room.creations("web")
    room.functions.reset()
    room.planner.go.set()
    room.take_in()
    assert room.touched == []


def test_a_paused_function_and_one_that_is_gone_leave_the_queue(room: Room) -> None:
    for uid, target in (("first", 5000), ("paused", 5001), ("gone", 5002), ("last", 5)):
        room.add(uid, "a", target)
        room.creations(uid)
    room.functions.objects["paused"]["spec"]["paused"] = True
    room.creations("paused")
    room.functions.drop("gone")
    room.planner.go.set()
    for _ in range(2):
        room.take_in()
        room.creations(room.touched[-1])
    assert room.planner.targets == [5000, 5]


def test_room_that_was_taken_meanwhile_is_not_planned_twice() -> None:
    """Two namespaces plan at the same time for the only place there is."""
    room = Room(nodes=1)
    for uid, namespace in (("one", "a"), ("two", "b")):
        room.add(uid, namespace, 5000)  # two large ones of 8, of four that fit
        room.functions.objects[uid]["spec"]["sizes"] = [
            {"name": "whole", "cpu": "5", "memory": "5Gi", "concurrency": 8}
        ]
        room.creations(uid)
    room.planner.go.set()
    room.take_in()
    room.take_in()
    first, second = room.touched
    assert room.creations(first) == 1
    assert room.creations(second) == 0, "its plan came too late"
    room.take_in()
    assert room.creations(second) == 0
    status = room.functions.reconcile(second, 1_000_001.0)
    assert status is not None
    assert room.functions.shortage > 0
    room.desk.stop()


def test_input_that_cannot_be_made_is_a_failed_result(room: Room) -> None:
    def make_input() -> PlannerInput:
        raise ValueError("no such size")

    found = room.desk.request("web", "a", (), make_input)
    assert found is not None
    assert found.failure == "ValueError: no such size"


def test_a_result_is_stale_after_a_lost_node_or_other_pods() -> None:
    function = read(combofunc(8))
    sizes = pod_shape(function).sizes
    place = Node("a", 8000, 2**34, 8000, 2**34, 10, 0, 1.0, 0.1)

    given = PlannerInput(function, PlanRequest(sizes, [place], [], 8), [], frozenset(), {}, 0.0)
    found = make_plan((), given, planning.plan)
    whole, less = Left(8000, 2**34, 10), Left(1999, 2**34, 10)
    assert not is_stale(found, [], {"a": whole}.get)
    assert not is_stale(found, [], {"a": Left(2000, 2**31, 1)}.get), "what is left is enough"
    assert is_stale(found, [], {"a": less}.get)
    assert is_stale(found, [], lambda _: None)
    assert is_stale(found, [Container("p", "a", sizes[0])], {"a": whole}.get)
