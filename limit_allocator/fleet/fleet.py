"""All agents and applications: takes reports, decides, and says what to tell whom. Pure; time is an argument.

    fleet = Fleet(term)
    fleet.set_applications(applications)             each time they change, as a whole
    session = fleet.attach(hello)                    an agent has opened a stream
    fleet.report(session, report, now_s)             True: tick at once
    for session, orders in fleet.tick(now_s).items(): send them; every 100 ms

    nodes = fleet.nodes_with_limits(name)            write them to the application's status, if it has others,
    fleet.confirm_nodes(name, nodes)                 and only then this: commands may go there

Agents keep these rules, beside those of `limit_allocator.allocation.node_account`:
- The first report of a stream names all containers. One that an earlier controller or an earlier start of the
  agent has limited, and that is not in it, has no limit of ours any more.
- A pod that is not listed any more has no limits of ours once its containers are `gone`.
- A new start of an agent keeps a limit only if it was written for the application that the pod is in now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np

from limit_allocator.allocation.model import report_order
from limit_allocator.fleet.agents import Agent
from limit_allocator.fleet.decisions import Decisions
from limit_allocator.fleet.groups import Groups
from limit_allocator.fleet.intake import Keys, Tables
from limit_allocator.fleet.model import Application, LaterTerm
from limit_allocator.fleet.orders import Dispatch, NodeCommands
from limit_allocator.fleet.pending import Pending, Rows, take_over
from limit_allocator.fleet.pods import pod_of, tell
from limit_allocator.fleet.roster import Roster
from limit_allocator.fleet.state import CPU, MEMORY, State
from limit_allocator.fleet.view import ApplicationView, view
from limit_allocator.wire.messages import MOST_CONTAINERS, Hello, MessageError, Orders, Report, ReserveOrder

__all__ = ["Fleet"]

_MOST_EARLY = 100  # reports of a stream before its agent has greeted this term


class Fleet:
    def __init__(self, term: int) -> None:
        self.term = term
        self.state = State(term)
        self.groups = Groups(self.state)
        self.roster = Roster(self.state, self.groups)
        self.decisions = Decisions(self.state)
        self._dispatch = Dispatch(self.state)
        self.applications: dict[str, Application] = {}
        self.nodes: list[str] = []  # names by index
        self.agents: dict[str, Agent] = {}
        self._sessions: dict[int, Agent] = {}
        self._last_session = 0
        self._pending: dict[int, list[Pending]] = defaultdict(list)  # by node
        self._counted_anew: list[str] = []  # nodes
        self._told_applications = False

    # What the cluster wants

    def set_applications(self, applications: Collection[Application]) -> None:
        """All applications there are. Only what changed costs more than a comparison."""
        self._told_applications = True
        wanted = {a.name: a for a in applications}
        before, self.applications = self.applications, wanted
        changed = [name for name in wanted.keys() | before.keys() if wanted.get(name) != before.get(name)]
        # Pods that leave an application may be in another one now: first out, then in.
        for name in changed:
            if name in before:
                self._pods_leave(before[name], wanted.get(name))
        for name in sorted(changed):
            group = self.groups.set_application(name, wanted.get(name))
            if application := wanted.get(name):
                self._pods_join(application, before.get(name))
                for node in application.nodes_with_limits:
                    if not self._agent(node).heard:
                        self.groups.hide(group, node, self._agent(node).index)

    def nodes_with_limits(self, application: str) -> frozenset[str]:
        """The nodes that the application's status must name, before it is confirmed.

        Nodes left out get no commands until they are confirmed again.
        """
        return self.groups.nodes_with_limits(application, self.nodes)

    def confirm_nodes(self, application: str, nodes: Collection[str]) -> None:
        """The application's status names these nodes, and no others."""
        self.groups.confirm(application, nodes, self.nodes)

    def forget_node(self, node: str) -> None:
        """The cluster has it no longer: so it has no containers of ours."""
        agent = self._agent(node)
        self._end_stream(agent)
        self.roster.lose_all(agent)
        agent.heard, agent.boot_id, agent.start = True, "", -1
        self.groups.show(node)

    # Agents

    def attach(self, hello: Hello) -> int:
        if hello.term > self.term:
            raise LaterTerm(hello.term)
        agent = self._agent(hello.node)
        if hello.boot_id == agent.boot_id and hello.start < agent.start:
            raise MessageError(f"{hello.node} greets with start {hello.start} after {agent.start}")
        self._end_stream(agent)
        if hello.boot_id != agent.boot_id:
            self.roster.lose_all(agent)
        agent.restarted |= hello.start != agent.start
        agent.boot_id, agent.start = hello.boot_id, hello.start
        agent.listed, agent.number, agent.early, agent.greet = False, -1, [], True
        self._last_session += 1
        agent.session = self._last_session
        self._sessions[agent.session] = agent
        self.state.start[agent.index] = agent.start
        return agent.session

    def detach(self, session: int) -> None:
        """The stream has ended. Its containers keep what they have and stay counted."""
        if agent := self._sessions.get(session):
            self._end_stream(agent)

    def is_attached(self, session: int) -> bool:
        """False: the agent has a newer stream, or its node is gone."""
        return session in self._sessions

    def pods_with_limits(self) -> set[str]:
        """Uids of pods whose containers have limits of ours, or will have at once."""
        return {uid for slot, (uid, _) in self.roster.names.items() if not self.state.slots.shadow[slot]}

    def has_heard(self, node: str) -> bool:
        """Whether what the node holds is known."""
        return node in self.agents and self.agents[node].heard

    def report(self, session: int, report: Report, now_s: float) -> bool:
        """Take a report. A bad one raises `MessageError` and changes nothing: end the stream.

        True if it brings what should not wait for the next tick: a memory event.
        """
        agent = self._sessions.get(session)
        if agent is None or report.number <= agent.number:
            return False
        if report.term > self.term:
            raise LaterTerm(report.term)
        if report.term < self.term or not self._told_applications:
            # It may still carry out commands of another term. Once it greets this term, it all counts.
            if len(agent.early) == _MOST_EARLY:
                raise MessageError(f"{agent.node} does not greet term {self.term}")
            agent.early.append(report)
            agent.number = report.number
            return False
        early, agent.early = agent.early, []
        agent.number = report.number
        urgent = False
        for each in (*early, report):
            urgent |= self._take(agent, each, now_s)
        return urgent

    def tick(self, now_s: float) -> dict[int, Orders]:
        """Decide, and say what to tell whom."""
        self._take_over(now_s)
        if not self._told_applications:
            return {}
        self.decisions.decide(now_s)
        commands = self._dispatch.commands_by_node(now_s)
        orders: dict[int, Orders] = {}
        for session, agent in self._sessions.items():
            own = commands.get(agent.index)
            tell_pods = agent.tell_pods or agent.greet
            if own is None and not tell_pods:
                continue
            own = own or NodeCommands()
            orders[session] = Orders(
                term=self.term,
                start=agent.start,
                pods=tuple(agent.pods.values()) if tell_pods else None,
                cpu=own.cpu,
                memory=own.memory,
                reserves=tuple(self._reserve_order(*row) for row in own.reserves),
            )
            agent.tell_pods = agent.greet = False
        return orders

    def view(self, application: str, now_s: float) -> ApplicationView | None:
        """None: there is no such application."""
        group = self.groups.get(application)
        if group is None or group.application is None:
            return None
        return view(group, self.state, self.roster.names, list(self.agents.values()), now_s)

    def _reserve_order(self, slot: int, sequence: int, value: int) -> ReserveOrder:
        name = self.groups.by_index[int(self.state.slots.group[slot])].name
        return ReserveOrder(application=name, sequence=sequence, value_bytes=value)

    def _agent(self, node: str) -> Agent:
        agent = self.agents.get(node)
        if agent is None:
            agent = self.agents[node] = Agent(node, self.state.add_node())
            self.nodes.append(node)
        return agent

    def _end_stream(self, agent: Agent) -> None:
        if agent.session is not None:
            del self._sessions[agent.session]
            agent.session = None
            self.state.session[agent.index] = -1

    def _pods_leave(self, before: Application, after: Application | None) -> None:
        for uid, row in before.pods.items():
            now = after.pods.get(uid) if after else None
            if now is None or now.node != row.node:
                tell(self._agent(row.node), uid, None, has_containers=True)

    def _pods_join(self, application: Application, before: Application | None) -> None:
        same = (
            before is not None
            and before.mode is application.mode
            and before.parameters.growth_bytes == application.parameters.growth_bytes
            and before.parameters.burst == application.parameters.burst
        )
        for uid, row in application.pods.items():
            if same and before is not None and before.pods.get(uid) == row:
                continue
            agent = self._agent(row.node)
            slots = self.roster.slots_of_pod(agent, uid)
            unlisted = uid in agent.unlisted.values()
            if unlisted:
                self.groups.hide(self.groups.of(application.name), agent.node, agent.index)
            tell(agent, uid, pod_of(uid, row, application), has_containers=bool(slots) or unlisted)
            if pod := agent.pods.get(uid):
                for slot in slots:
                    self.roster.set_ceilings(slot, pod)

    def _take(self, agent: Agent, report: Report, now_s: float) -> bool:
        tables = Tables.of(report)
        if len({*agent.reserves, *(r.application for r in report.reserves)}) > MOST_CONTAINERS:
            raise MessageError(f"an agent has more than {MOST_CONTAINERS} reserves")
        roll_call = not agent.listed or report.found or len(tables.gone)
        keys: Keys | None = agent.keys
        if roll_call:
            unlisted = agent.unlisted
            keys = self.roster.call(agent, report, tables, now_s)
            if agent.unlisted != unlisted:
                self._count_unlisted(agent)
        if keys is None:
            return False
        cpu, memory, *accounts = (
            Rows.of(keys.slots(rows[0]), rows)
            for rows in (tables.cpu, tables.memory, tables.cpu_accounts, tables.memory_accounts)
        )
        # Nothing fails from here on.
        state, index = self.state, agent.index
        if not agent.heard:
            agent.heard = True
            self._counted_anew.append(agent.node)
        state.session[index] = -1 if agent.session is None else agent.session
        state.heard_at_s[index], state.room_bytes[index] = now_s, report.room_bytes
        agent.foreign_writes = report.foreign_writes
        if report.reserves:
            accounts[MEMORY] = self._with_reserves(agent, report, accounts[MEMORY])
        order = report_order(agent.start, report.number)
        self._pending[index].append(
            Pending(order, agent.start, report.at_us, cpu, memory, (accounts[CPU], accounts[MEMORY]))
        )
        return bool(len(memory.slots)) and bool(memory.values[1].any())

    def _count_unlisted(self, agent: Agent) -> None:
        """Containers of an application that is off have limits until their agent has heard of it."""
        for name in self._unlisted_of(agent):
            self.groups.hide(self.groups.of(name), agent.node, agent.index)
        self._counted_anew.append(agent.node)

    def _unlisted_of(self, agent: Agent) -> set[str]:
        uids = set(agent.unlisted.values())
        return {a.name for a in self.applications.values() if not uids.isdisjoint(a.pods)} if uids else set()

    def _with_reserves(self, agent: Agent, report: Report, accounts: Rows) -> Rows:
        """A reserve is an account of what was granted."""
        slots, values = [], []
        for reserve in report.reserves:
            slot = agent.reserves.get(reserve.application)
            if slot is None:
                group = self.groups.of(reserve.application)
                slot = self.state.add_reserve(group.index, agent.index, reserve.granted_bytes)
                agent.reserves[reserve.application] = slot
                self.state.slots.confirmed[slot] = agent.node in group.confirmed
            self.state.slots.used_bytes[slot] = reserve.spent_bytes
            slots.append(slot)
            values.append((reserve.applied, 1, reserve.granted_bytes, 0, 0))
        return Rows(
            np.concatenate([accounts.slots, slots]), np.concatenate([accounts.values, np.array(values).T], 1)
        )

    def _take_over(self, now_s: float) -> None:
        pending, self._pending = self._pending, defaultdict(list)
        # Of an agent with several reports each tells its own period.
        for number in range(max((len(reports) for reports in pending.values()), default=0)):
            batch = [reports[number] for reports in pending.values() if len(reports) > number]
            take_over(batch, self.term, now_s, self.state)
        for node in self._counted_anew:  # only now its limits are counted one by one
            self.groups.show(node, but=self._unlisted_of(self.agents[node]))
        self._counted_anew = []
        self.state.slots.reuse()
        self._note_registrations(now_s)

    def _note_registrations(self, now_s: float) -> None:
        of = self.state.slots
        slots = np.flatnonzero(of.registering)
        for slot in slots[~self.state.joining(slots)].tolist():
            of.registering[slot] = False
            delay_s = float(now_s - of.found_at_s[slot])
            self.groups.by_index[of.group[slot]].registration_delays_s.append(delay_s)
