"""The fleet case by case: who is told what, what is refused, what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from limit_allocator.allocation.model import Parameters, Variant
from limit_allocator.fleet.fleet import Fleet
from limit_allocator.fleet.model import Application, LaterTerm, PodRow
from limit_allocator.fleet.view import MOST_CONTAINERS, ApplicationView, ContainerView
from limit_allocator.wire.messages import Ceiling, Found, Hello, MessageError, Orders, Report
from surgekit.process.modes import Mode
from tests.limit_allocator.fleet.world import MIB, Container, SimulatedAgent

SHOP = "ns/shop"


def application(pods: Mapping[str, PodRow], **changes: object) -> Application:
    given = Application(SHOP, Mode.ENFORCE, Parameters(), 200_000, 400 * MIB, pods)
    return replace(given, **changes)  # type: ignore[arg-type]


class Setting:
    """One application with one pod a node, whose agents speak to the fleet without faults."""

    def __init__(self, nodes: int = 2, term: int = 1, **changes: object) -> None:
        self.pods = {
            f"pod {i}": PodRow(f"n{i}", f"shop-{i}", containers={f"c{i}": "web"}) for i in range(nodes)
        }
        self.application = application(self.pods, **changes)
        self.agents = [SimulatedAgent(f"n{i}") for i in range(nodes)]
        for i, agent in enumerate(self.agents):
            agent.running[f"c{i}"] = Container(f"pod {i}", f"c{i}")
        self.now_s, self.confirms = 0.0, True
        self.begin(term)

    def begin(self, term: int) -> None:
        self.fleet = Fleet(term)
        self.fleet.set_applications([self.application])
        self.sessions = [self.fleet.attach(agent.hello()) for agent in self.agents]

    def change(self, **changes: object) -> None:
        self.application = replace(self.application, **changes)  # type: ignore[arg-type]
        self.fleet.set_applications([self.application])

    def tick(self, times: int = 1, silent: tuple[int, ...] = ()) -> dict[int, Orders]:
        """The last tick's orders, by agent."""
        orders: dict[int, Orders] = {}
        for _ in range(times):
            self.now_s += 0.1
            for i, agent in enumerate(self.agents):
                if agent.knows_pods and i not in silent:
                    self.fleet.report(self.sessions[i], agent.report(), self.now_s)
            if self.confirms:
                self.fleet.confirm_nodes(SHOP, self.fleet.nodes_with_limits(SHOP))
            sent = self.fleet.tick(self.now_s)
            orders = {i: sent[session] for i, session in enumerate(self.sessions) if session in sent}
            for i, message in orders.items():
                self.agents[i].obey(message)
        return orders

    def container(self, i: int) -> Container:
        return self.agents[i].running[f"c{i}"]

    def view(self) -> ApplicationView:
        shown = self.fleet.view(SHOP, self.now_s)
        assert shown is not None
        return shown

    def shown(self, i: int) -> ContainerView:
        return next(c for c in self.view().containers if c.pod == f"shop-{i}")


def test_the_first_orders_greet_and_list_the_nodes_pods() -> None:
    first = Setting().tick()
    assert {i: (o.term, o.start) for i, o in first.items()} == {0: (1, 1), 1: (1, 1)}
    assert [[pod.uid for pod in first[i].pods or ()] for i in range(2)] == [["pod 0"], ["pod 1"]]


def test_a_newcomer_gets_its_limits_in_the_tick_after_its_report() -> None:
    setting = Setting()
    setting.tick()
    assert setting.container(0).quota_us is None
    setting.tick()
    # Equations (1) and (2): 200 ms / 2; 400 MiB * (1 - 0.2) / 2.
    assert [(c.quota_us, c.memory_bytes) for c in map(setting.container, range(2))] == [
        (100_000, 160 * MIB)
    ] * 2


def test_nothing_is_told_before_the_applications_are_known() -> None:
    fleet = Fleet(1)
    session = fleet.attach(SimulatedAgent("n0").hello())
    assert fleet.tick(0.1) == {}
    fleet.set_applications([])
    assert fleet.tick(0.2) == {session: Orders(term=1, start=1, pods=())}


def test_no_command_goes_to_a_node_that_the_status_does_not_name() -> None:
    setting = Setting()
    setting.confirms = False
    setting.tick(5)
    assert setting.fleet.nodes_with_limits(SHOP) == {"n0", "n1"}
    assert [setting.container(i).quota_us for i in range(2)] == [None, None]
    setting.fleet.confirm_nodes(SHOP, {"n1"})
    setting.tick()
    assert [setting.container(i).quota_us for i in range(2)] == [None, 200_000]


def test_a_node_without_limits_is_left_out_and_has_to_be_confirmed_again() -> None:
    setting = Setting()
    setting.tick(3)
    del setting.agents[0].running["c0"]
    setting.tick(3)  # its reserve goes back, too
    assert setting.fleet.nodes_with_limits(SHOP) == {"n1"}
    setting.confirms = False
    setting.agents[0].running["c9"] = Container("pod 0", "c9")
    setting.tick(3)
    assert setting.agents[0].running["c9"].quota_us is None
    setting.confirms = True
    setting.tick(2)
    assert setting.agents[0].running["c9"].quota_us is not None


def test_after_a_restart_a_node_that_has_not_reported_prevents_raises() -> None:
    setting = Setting()
    setting.tick(10)
    setting.application = replace(setting.application, nodes_with_limits=frozenset({"n0", "n1"}))
    setting.begin(2)
    setting.container(0).demand_us = 80_000
    before = setting.container(0).quota_us
    setting.tick(10, silent=(1,))
    assert setting.container(0).quota_us == before
    assert setting.view().unknown_nodes == ("n1",)
    setting.tick(10)
    assert (setting.container(0).quota_us or 0) >= 80_000
    assert setting.view().unknown_nodes == ()


@pytest.mark.parametrize("leaves", [True, False], ids=["forgotten", "still there"])
def test_a_node_that_the_cluster_has_no_more_holds_nothing(leaves: bool) -> None:
    setting = Setting()
    setting.tick(10)
    setting.application = replace(setting.application, nodes_with_limits=frozenset({"n0", "n1"}))
    setting.begin(2)
    setting.container(0).demand_us = 80_000
    if leaves:
        setting.fleet.forget_node("n1")
    setting.tick(10, silent=(1,))
    assert ((setting.container(0).quota_us or 0) >= 80_000) is leaves
    assert setting.fleet.nodes_with_limits(SHOP) == ({"n0"} if leaves else {"n0", "n1"})


def test_shadow_decides_and_commands_nothing() -> None:
    setting = Setting(mode=Mode.SHADOW)
    setting.tick(5)
    assert not any(pod.enforce for agent in setting.agents for pod in agent.pods.values())
    assert setting.container(0).quota_us is None
    assert setting.shown(0).cpu.limit == 22_000  # its use, and a margin of gamma / 2
    assert setting.view().cpu.allocated == 44_000
    assert setting.fleet.nodes_with_limits(SHOP) == frozenset()


def test_off_lists_no_pods_and_limits_are_undone() -> None:
    setting = Setting()
    setting.tick(5)
    setting.change(mode=Mode.OFF)
    setting.tick(3)
    assert [agent.pods for agent in setting.agents] == [{}, {}]
    assert setting.view().containers == ()
    assert setting.container(0).quota_us is None


def test_a_mode_changes_by_way_of_no_limits_at_all() -> None:
    setting = Setting()
    setting.tick(5)
    setting.change(mode=Mode.SHADOW)
    assert setting.tick()[0].pods == ()
    assert [pod.enforce for pod in setting.tick()[0].pods or ()] == [False]


def test_a_lowered_limit_is_reached_by_cuts_and_shown_until_then() -> None:
    setting = Setting()
    for i in range(2):
        setting.container(i).demand_us = 90_000
    setting.tick(10)
    setting.change(cpu_limit_us=50_000)
    assert setting.view().is_over_its_limit
    setting.tick(3)
    assert [setting.container(i).quota_us for i in range(2)] == [25_000, 25_000]
    assert not setting.view().is_over_its_limit


def test_the_pods_ceiling_holds_and_moves() -> None:
    setting = Setting(nodes=1)
    setting.container(0).demand_us = 150_000
    row = setting.pods["pod 0"]
    for ceiling_us in (60_000, 120_000, 40_000):
        ceilings = (Ceiling(container_id="c0", quota_us=ceiling_us, memory_bytes=100 * MIB),)
        setting.change(pods={"pod 0": replace(row, ceilings=ceilings)})
        setting.tick(8)
        assert setting.container(0).quota_us == ceiling_us
        assert (setting.container(0).memory_bytes or 0) <= 100 * MIB


@pytest.mark.parametrize("variant", Variant)
def test_a_silent_agents_containers_keep_what_they_have(variant: Variant) -> None:
    setting = Setting(parameters=Parameters(variant=variant))
    setting.tick(20)
    kept = setting.shown(1)
    setting.fleet.detach(setting.sessions[1])
    setting.container(0).demand_us = 150_000
    setting.tick(100, silent=(1,))
    now = setting.shown(1)
    assert (now.cpu.limit, now.memory.limit) == (kept.cpu.limit, kept.memory.limit)
    assert setting.view().silent_nodes == ("n1",)
    assert setting.view().cpu.allocated <= 200_000


def test_another_boot_has_none_of_the_containers_of_before() -> None:
    setting = Setting()
    setting.tick(5)
    setting.agents[1].reboot()
    setting.sessions[1] = setting.fleet.attach(setting.agents[1].hello())
    assert [c.node for c in setting.view().containers] == ["n0"]


def test_a_new_start_finds_its_containers_again() -> None:
    setting = Setting()
    setting.tick(5)
    before = setting.view().cpu.allocated
    setting.agents[1].restart()
    setting.sessions[1] = setting.fleet.attach(setting.agents[1].hello())
    assert setting.view().cpu.allocated == before
    setting.tick(3)
    assert [c.node for c in setting.view().containers] == ["n0", "n1"]
    assert setting.view().cpu.allocated == before


def test_a_new_start_finds_a_pod_again_that_changed_its_mode_meanwhile() -> None:
    """Until its containers are gone the pod is not listed, so there is nothing to find, and to wait for."""
    setting = Setting()
    setting.tick(5)
    setting.agents[1].restart()
    setting.change(mode=Mode.OFF)
    pod_without_container = {"pod 9": PodRow("n1", "shop-9")}
    setting.change(mode=Mode.ENFORCE, pods={**setting.pods, **pod_without_container})
    setting.sessions[1] = setting.fleet.attach(setting.agents[1].hello())
    setting.tick(10)
    assert setting.container(1).quota_us is not None


def test_what_an_agent_holds_of_an_application_that_is_off_counts_until_the_agent_has_heard_of_it() -> None:
    setting = Setting()
    setting.tick(5)
    setting.change(nodes_with_limits=frozenset({"n0", "n1"}))
    setting.begin(term=2)
    setting.tick()
    reports = [agent.report() for agent in setting.agents]
    assert setting.agents[0].holds(SHOP)[0] > 0
    setting.change(mode=Mode.OFF)
    for session, report in zip(setting.sessions, reports, strict=True):
        setting.fleet.report(session, report, setting.now_s)
    on_their_way = setting.fleet.tick(setting.now_s)
    assert setting.fleet.nodes_with_limits(SHOP) == {"n0", "n1"}
    setting.change(mode=Mode.ENFORCE)
    assert not any(orders.cpu or orders.memory for orders in setting.fleet.tick(setting.now_s).values())
    for session, agent in zip(setting.sessions, setting.agents, strict=True):
        agent.obey(on_their_way[session])
    assert setting.agents[0].holds(SHOP) == (0, 0)
    setting.tick(10)
    assert setting.agents[0].holds(SHOP)[0] > 0
    assert setting.view().unknown_nodes == ()


def test_a_newer_stream_replaces_the_older() -> None:
    setting = Setting()
    setting.tick(5)
    old = setting.sessions[0]
    setting.sessions[0] = setting.fleet.attach(setting.agents[0].hello())
    assert not setting.fleet.is_attached(old)
    assert setting.fleet.report(old, setting.agents[0].report(), setting.now_s) is False
    setting.fleet.detach(old)
    assert setting.fleet.is_attached(setting.sessions[0])


def test_a_later_term_is_told() -> None:
    setting = Setting()
    setting.tick(3)
    with pytest.raises(LaterTerm) as later:
        setting.fleet.attach(Hello(node="n0", boot_id="boot 1", start=1, term=7))
    assert later.value.term == 7
    report = msgspec.structs.replace(setting.agents[0].report(), term=8)
    with pytest.raises(LaterTerm):
        setting.fleet.report(setting.sessions[0], report, setting.now_s)


def test_an_earlier_start_is_refused() -> None:
    setting = Setting()
    setting.agents[0].restart()
    setting.fleet.attach(setting.agents[0].hello())
    with pytest.raises(MessageError):
        setting.fleet.attach(Hello(node="n0", boot_id="boot 1", start=1, term=0))


def column(*values: int) -> bytes:
    return np.array(values, "<i8").tobytes()


FOUND = Found(key=9, pod_uid="pod 0", container_id="c9", quota_us=1, memory_bytes=1)
BAD: dict[str, Callable[[Report], Report]] = {
    "key of nobody": lambda r: msgspec.structs.replace(r, cpu=column(77, 0, 0, 0, 0, 0)),
    "account of nobody": lambda r: msgspec.structs.replace(r, memory_accounts=column(77, 0, 0, 0, 0, 0)),
    "no table": lambda r: msgspec.structs.replace(r, memory=b"123"),
    "negative": lambda r: msgspec.structs.replace(r, cpu=column(1, 0, -1, 0, 0, 0)),
    "too much": lambda r: msgspec.structs.replace(r, memory=column(1, 1 << 60, 0, 0, 0)),
    "negative account": lambda r: msgspec.structs.replace(r, cpu_accounts=column(1, -1, 0, 0, 0, 0)),
    "found twice": lambda r: msgspec.structs.replace(r, found=(FOUND, FOUND)),
    "key in use": lambda r: msgspec.structs.replace(r, found=(msgspec.structs.replace(FOUND, key=1),)),
    "id in use": lambda r: msgspec.structs.replace(
        r, found=(msgspec.structs.replace(FOUND, container_id="c0"),)
    ),
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD.keys())
def test_a_bad_report_is_refused_and_changes_nothing(spoil: Callable[[Report], Report]) -> None:
    setting = Setting()
    setting.tick(5)
    before = setting.view()
    with pytest.raises(MessageError):
        setting.fleet.report(setting.sessions[0], spoil(setting.agents[0].report()), setting.now_s)
    assert setting.view() == before


def test_one_that_came_and_went_between_two_reports_is_no_error() -> None:
    setting = Setting()
    setting.tick(5)
    report = setting.agents[0].report()
    gone = msgspec.structs.replace(report, gone=column(50), cpu=column(50, 0, 0, 0, 0, 0))
    setting.fleet.report(setting.sessions[0], gone, setting.now_s)
    assert len(setting.view().containers) == 2


def test_a_memory_event_wants_a_tick_at_once_and_is_answered() -> None:
    setting = Setting()
    setting.tick(5)
    # More than its limit and the reserve of its node.
    for _ in range(12):
        setting.agents[0].use("c0", 260 * MIB)
        assert setting.container(0).used_bytes == 260 * MIB or setting.fleet.report(
            setting.sessions[0], setting.agents[0].report(), setting.now_s
        )
        setting.tick()
    assert setting.container(0).used_bytes == 260 * MIB
    assert setting.view().memory.allocated <= 400 * MIB
    assert setting.view().events_survived > 0
    assert "it hit its limit" in setting.shown(0).memory.why


def test_one_that_hit_its_limit_and_gave_memory_back_gives_to_others_at_once() -> None:
    setting = Setting()
    setting.tick(5)
    for _ in range(40):  # until there is no more
        setting.agents[0].use("c0", 390 * MIB)
        setting.tick()
    setting.agents[0].use("c0", 390 * MIB)  # hits its limit once more, and gives memory back
    setting.tick()
    setting.agents[0].use("c0", 50 * MIB)
    for _ in range(15):  # less than a container may wait
        setting.agents[1].use("c1", 250 * MIB)
        setting.tick()
    assert setting.container(1).used_bytes == 250 * MIB


def test_a_reserve_is_not_moved_for_a_little() -> None:
    setting = Setting(nodes=1)
    more = {f"pod {i}": PodRow("n0" if i < 10 else "n1", f"shop-{i}") for i in range(1, 20)}
    setting.change(pods=setting.pods | more, memory_limit_bytes=20_000 * MIB)
    setting.agents.append(SimulatedAgent("n1"))
    setting.sessions.append(setting.fleet.attach(setting.agents[1].hello()))
    orders = []
    for i in range(1, 20):
        agent = setting.agents[i // 10]
        agent.running[f"c{i}"] = Container(f"pod {i}", f"c{i}", used_bytes=MIB)
        for _ in range(3):
            orders += [r for o in setting.tick().values() for r in o.reserves]
    setting.tick(3)
    granted = [agent.memory.unspent(SHOP) for agent in setting.agents]
    assert granted == pytest.approx([2_000 * MIB, 2_000 * MIB], rel=0.15)  # sigma, by containers
    assert len(orders) <= 19


def test_the_view_explains() -> None:
    setting = Setting()
    setting.tick(30)
    shown = setting.shown(0)
    assert (shown.container, shown.node, shown.joined) == ("web", "n0", True)
    assert shown.cpu.why == "cut from 1.00 to 0.22 cores: the rest was not used"
    assert shown.cpu.used == 20_000
    view = setting.view()
    assert view.registration_delays_s == pytest.approx((0.1, 0.1))
    assert setting.fleet.view("ns/none", 0.0) is None


def test_the_view_of_many_shows_those_that_need_attention_and_counts_all() -> None:
    count = MOST_CONTAINERS + 10
    setting = Setting(nodes=count, cpu_limit_us=count * 100_000, memory_limit_bytes=count * 100 * MIB)
    setting.tick(30)
    throttled, full = setting.container(7), setting.container(55)
    throttled.demand_us, full.used_bytes = 300_000, int(0.99 * (full.memory_bytes or 0))
    setting.confirms = False
    setting.tick(1)
    view = setting.view()
    assert (view.container_count, len(view.containers)) == (count, MOST_CONTAINERS)
    assert {"shop-7", "shop-55"} <= {c.pod for c in view.containers}
    assert [c.pod for c in view.containers] == sorted(c.pod for c in view.containers)
    others = 20_000 * (count - 1)
    assert others < view.cpu.used <= others + 300_000


def test_nobody_is_cut_while_a_longer_window_begins() -> None:
    setting = Setting()
    setting.tick(10)
    before = setting.container(0).quota_us
    setting.change(parameters=Parameters(window_periods=40))
    setting.tick(1)
    assert setting.container(0).quota_us == before
