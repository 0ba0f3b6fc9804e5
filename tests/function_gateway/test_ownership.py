"""Functions shared out over replicas: one owner each, and no slot is given out twice while replicas talk."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from function_gateway.ownership import PATIENCE_S, Ownership, Statement, owner, read_statement

NAMES = st.sets(st.sampled_from([f"10.0.0.{i}" for i in range(1, 9)]), min_size=1)
HOSTS = [f"f{i}.shop" for i in range(40)]


@given(NAMES)
def test_each_function_has_one_owner_whoever_looks(names: set[str]) -> None:
    for host in HOSTS:
        assert owner(sorted(names), host) == owner(sorted(names, reverse=True), host)
        assert owner(names, host) in names


@given(NAMES, st.data())
def test_a_member_that_leaves_moves_only_its_own_functions(names: set[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(sorted(names)))
    for host in HOSTS:
        if (before := owner(names, host)) != gone:
            assert owner(names - {gone}, host) == before


def test_functions_are_shared_evenly() -> None:
    counts = Counter(owner([f"10.0.0.{i}" for i in range(4)], f"f{i}.shop") for i in range(4000))
    assert min(counts.values()) > 900, "1000 each, with a standard deviation of 27"


def test_without_members_nobody_owns_it() -> None:
    assert owner([], "f.shop") == ""


@dataclass
class Replica:
    """One replica with one pod of `SLOTS` slots a function, and what it last heard of each other one."""

    state: Ownership
    heard: dict[str, Statement] = field(default_factory=dict)
    published: Statement | None = None
    holds: frozenset[str] = frozenset()
    granted: Counter[str] = field(default_factory=Counter)  # requests in the pod
    lowered: dict[str, int] = field(default_factory=dict)


SLOTS = 3
NAMED = ("a", "b", "c")
# What happens next to which replica; the second is the one that is heard.
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["hear and look", "hear", "look", "grant", "end", "join", "leave", "stay"]),
        st.sampled_from(NAMED),
        st.sampled_from(NAMED),
    ),
    min_size=20,
    max_size=150,
)


class World:
    """Replicas that hear each other late and in any order, but whose messages are not lost."""

    def __init__(self, hosts: list[str]) -> None:
        self.hosts, self.now_s = hosts, 0.0
        self.replicas = {name: Replica(Ownership(name, 1)) for name in ("a", "b", "c", "d")}
        self.there: set[str] = set()

    def join(self, name: str) -> None:
        self.there.add(name)

    def look(self, name: str) -> None:
        if name not in self.there:
            return
        one = self.replicas[name]
        move = one.state.look(self.hosts, one.heard, (), self.now_s)
        one.holds = move.holds
        one.lowered = {host: sum(pods.values()) for host, pods in move.in_flight.items()}
        one.state.ready = True
        left = {h: {"pod": n} for h, n in one.granted.items() if n and h not in one.holds}
        one.published = one.state.statement(left)

    def hear(self, name: str, other: str) -> None:
        """A newcomer has heard everybody before it first looks."""
        said = self.replicas[other].published
        if name in self.there and name != other and other in self.there and said is not None:
            self.replicas[name].heard[other] = said

    def grant(self, name: str, host: str) -> None:
        one = self.replicas[name]
        if host in one.holds and one.granted[host] + one.lowered.get(host, 0) < SLOTS:
            one.granted[host] += 1

    def in_pod(self, host: str) -> int:
        return sum(one.granted[host] for one in self.replicas.values())


@settings(max_examples=300, deadline=None)
@given(ACTIONS, st.sampled_from(HOSTS[:6]))
def test_no_slot_is_given_out_twice_while_ownership_moves(
    actions: list[tuple[str, str, str]], host: str
) -> None:
    """Whatever is heard when: as long as it is heard within the patience (time stands still here)."""
    here = World([host])
    for what, name, other in actions:
        one = here.replicas[name]
        if what == "join" and name not in here.there:
            here.join(name)
            for there in sorted(here.there):
                here.hear(name, there)
            here.look(name)
        elif what in ("leave", "stay"):
            one.state.leaves = what == "leave"
            here.look(name)
        elif what == "grant":
            for _ in range(SLOTS):
                here.grant(name, host)
        elif what == "end" and one.granted[host]:
            one.granted[host] -= 1
        if "hear" in what:
            here.hear(name, other)
        if "look" in what:
            here.look(name)
        assert here.in_pod(host) <= SLOTS


@given(st.sets(st.sampled_from("abcd"), min_size=1))
def test_replicas_that_talk_agree_and_everything_is_held_once(there: set[str]) -> None:
    here = World(HOSTS)
    for name in sorted(there):
        here.join(name)
    for _ in range(6):
        for name in sorted(there):
            for other in sorted(there):
                here.hear(name, other)
            here.look(name)
    held = Counter(host for name in there for host in here.replicas[name].holds)
    assert held == Counter(HOSTS)


def settled(*names: str) -> World:
    here = World(HOSTS)
    for name in names:
        here.join(name)
    talk(here)
    return here


def talk(here: World, rounds: int = 6) -> None:
    for _ in range(rounds):
        for name in sorted(here.there):
            for other in sorted(here.there):
                here.hear(name, other)
            here.look(name)


def test_the_new_owner_leaves_out_what_the_former_still_has_in_flight() -> None:
    here = settled("a")
    for _ in range(2):
        here.grant("a", HOSTS[0])
    here.replicas["a"].state.leaves = True
    here.join("b")
    talk(here)
    assert here.replicas["a"].holds == frozenset()
    assert here.replicas["b"].holds == frozenset(HOSTS)
    for _ in range(5):
        here.grant("b", HOSTS[0])
    assert (here.replicas["a"].granted[HOSTS[0]], here.replicas["b"].granted[HOSTS[0]]) == (2, 1)


def test_a_death_moves_the_functions_of_the_dead_at_once() -> None:
    here = settled("a", "b", "c")
    before = here.replicas["c"].holds
    here.there.discard("c")
    for name in "ab":
        del here.replicas[name].heard["c"]
    talk(here)
    assert before
    assert here.replicas["a"].holds | here.replicas["b"].holds == frozenset(HOSTS)


def test_a_mute_replica_keeps_its_functions() -> None:
    here = settled("a", "b")
    kept = here.replicas["b"].holds
    move = here.replicas["a"].state.look(HOSTS, {}, {"b"}, 0.0)
    assert move.holds.isdisjoint(kept)
    assert set(move.owners) == kept


def test_who_disagrees_for_too_long_is_not_waited_for() -> None:
    one = Ownership("a", 1)
    stubborn = Statement(
        name="b", version=1, members=frozenset({"b"}), heard={"a": 99}, holds=frozenset(HOSTS)
    )
    first = one.look(HOSTS, {"b": stubborn}, (), 0.0)
    assert not first.holds
    assert first.waits
    assert one.look(HOSTS, {"b": stubborn}, (), PATIENCE_S - 0.01).waits == first.waits
    assert one.look(HOSTS, {"b": stubborn}, (), PATIENCE_S).holds == first.waits


def test_what_haproxy_gives_out_already_is_held_on_after_a_restart() -> None:
    one = Ownership("a", 1, holds=HOSTS[:3])
    silent = Statement(name="b", version=1)
    move = one.look(HOSTS, {"b": silent}, (), 0.0)
    assert move.holds == {host for host in HOSTS[:3] if owner(["a", "b"], host) == "a"}


@pytest.mark.parametrize(
    "line", [b"", b"null", b"[]", b"{}", b'{"name":1}', b"\xff", b"[" * 100_000, b'{"name":"a"}']
)
def test_nonsense_is_no_statement(line: bytes) -> None:
    assert read_statement(line) is None


def test_a_statement_arrives_as_it_was_sent() -> None:
    said = Statement(
        name="a", version=7, members=frozenset("ab"), heard={"b": 3}, holds=frozenset({"f.shop"}),
        in_flight={"g.shop": {"10.0.0.1:80": 2}}, stays=False,
    )  # fmt: skip
    assert read_statement(msgspec.json.encode(said)) == said
