"""Slots, weights and commands: the commands add up to what the pods can take."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_gateway.backends import Pod, Server, desired, difference, read_back, weights
from surgekit.haproxy.runtime import ServerState
from surgekit.haproxy.slots import Slots

SIZES = st.integers(1, 5000)
PODS = st.lists(
    st.builds(Pod, st.sampled_from([f"10.0.0.{i}" for i in range(1, 9)]), st.sampled_from([80, 8080]), SIZES),
    max_size=10,
)


class FakeHaproxy:
    """Obeys `difference`'s commands on one backend's servers."""

    def __init__(self, count: int) -> None:
        unused = {"addr": "192.0.2.1", "port": "80", "weight": "0", "maxconn": "1"}
        self.servers = {f"s{i}": dict(unused) for i in range(count)}

    def obey(self, commands: list[str]) -> None:
        for command in commands:
            words = command.split()
            if words[:3] == ["set", "maxconn", "server"]:
                self._server(words[3])["maxconn"] = words[4]
            else:
                server = self._server(words[2])
                assert words[3] != "addr" or server["weight"] == "0"  # else it would get another's requests
                server |= dict(zip(words[3::2], words[4::2], strict=True))

    def _server(self, name: str) -> dict[str, str]:
        return self.servers[name.removeprefix("b/")]

    def serving(self) -> dict[str, tuple[int, int]]:
        """Of servers that get requests: address -> weight, maxconn."""
        used = [server for server in self.servers.values() if server["weight"] != "0"]
        return {f"{s['addr']}:{s['port']}": (int(s["weight"]), int(s["maxconn"])) for s in used}

    def states(self) -> list[ServerState]:
        return [
            ServerState(name, server["addr"], int(server["port"]), int(server["weight"]))
            for name, server in self.servers.items()
        ]


@pytest.mark.parametrize(
    ("concurrency", "expected"),
    [
        ([], []),
        ([1, 2, 256], [1, 2, 256]),
        ([1, 128, 512], [1, 64, 256]),  # 0.5 would be 0: at least 1
        ([1000, 500, 250], [256, 128, 64]),
        ([1000, 3], [256, 1]),  # 0.768 rounds up
    ],
)
def test_weights(concurrency: list[int], expected: list[int]) -> None:
    assert weights(concurrency) == expected


@given(st.lists(SIZES, min_size=1, max_size=20))
def test_weights_go_with_concurrency(concurrency: list[int]) -> None:
    found = weights(concurrency)
    assert all(1 <= weight <= 256 for weight in found)
    scale = min(Fraction(1), Fraction(256, max(concurrency)))
    for q, weight in zip(concurrency, found, strict=True):
        assert abs(weight - q * scale) <= Fraction(1, 2) or weight == 1


@given(st.lists(PODS, max_size=8), st.integers(1, 8))
def test_haproxy_serves_what_is_wanted(rounds: list[list[Pod]], count: int) -> None:
    slots, sent, haproxy = Slots(count), dict[int, Server](), FakeHaproxy(count)
    for pods in rounds:
        now = desired(slots, pods)
        haproxy.obey(difference("b", sent, now))
        by_name = {pod.name: pod for pod in pods}
        serving = haproxy.serving()
        assert len(serving) == min(count, len(by_name))
        assert {name: maxconn for name, (_, maxconn) in serving.items()} == {
            name: by_name[name].concurrency for name in serving
        }
        shares = dict(zip(serving, weights([by_name[name].concurrency for name in serving]), strict=True))
        assert {name: weight for name, (weight, _) in serving.items()} == shares
        assert difference("b", now, desired(slots, pods)) == []  # nothing is sent twice
        sent = now


@given(PODS, PODS, st.integers(1, 8))
def test_a_haproxy_that_runs_already_is_taken_over(before: list[Pod], after: list[Pod], count: int) -> None:
    """Pods keep their slots: what they are doing is counted there."""
    haproxy = FakeHaproxy(count)
    first = desired(Slots(count), before)
    haproxy.obey(difference("b", {}, first))
    slots, sent = read_back(count, haproxy.states())
    now = desired(slots, after)
    haproxy.obey(difference("b", sent, now))
    fresh = desired(Slots(count), after)
    assert len(haproxy.serving()) == len(now) == len(fresh)
    where = {(server.address, server.port): number for number, server in first.items()}
    for number, server in now.items():
        key = (server.address, server.port)
        assert where.get(key, number) == number


def test_a_resize_is_two_commands() -> None:
    slots = Slots(4)
    sent = desired(slots, [Pod("10.0.0.1", 80, 2), Pod("10.0.0.2", 80, 4)])
    now = desired(slots, [Pod("10.0.0.1", 80, 8), Pod("10.0.0.2", 80, 4)])
    assert difference("f3", sent, now) == ["set maxconn server f3/s0 8", "set server f3/s0 weight 8"]


def test_a_pod_that_leaves_finishes_and_gets_its_slot_back() -> None:
    slots = Slots(4)
    first, second = Pod("10.0.0.1", 80, 2), Pod("10.0.0.2", 80, 4)
    both = desired(slots, [first, second])
    alone = desired(slots, [second])
    assert difference("f3", both, alone) == ["set server f3/s0 weight 0"]
    again = desired(slots, [first, second])
    assert difference("f3", alone, again) == [
        "set server f3/s0 addr 10.0.0.1 port 80",
        "set maxconn server f3/s0 2",
        "set server f3/s0 weight 2",
        "set maxconn server f3/s0 2",
    ]


def test_a_slot_that_changes_hands_at_once_is_closed_in_between() -> None:
    slots = Slots(1)
    sent = desired(slots, [Pod("10.0.0.1", 80, 2)])
    assert difference("f0", sent, desired(slots, [Pod("10.0.0.2", 80, 2)])) == [
        "set server f0/s0 weight 0",
        "set server f0/s0 addr 10.0.0.2 port 80",
        "set maxconn server f0/s0 2",
        "set server f0/s0 weight 2",
        "set maxconn server f0/s0 2",
    ]
