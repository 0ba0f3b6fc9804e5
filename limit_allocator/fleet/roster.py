"""Containers as their agents find them, keep them, and say that they are gone."""

from __future__ import annotations

import numpy as np

from limit_allocator.allocation.model import Integers
from limit_allocator.fleet.agents import Agent
from limit_allocator.fleet.groups import Groups
from limit_allocator.fleet.intake import Keys, Tables, check_roll
from limit_allocator.fleet.pods import tell_changed
from limit_allocator.fleet.state import NO_CEILING, State
from limit_allocator.wire.messages import ACCOUNT_ROWS, Found, Pod, Report

__all__ = ["Roster"]


class Roster:
    def __init__(self, state: State, groups: Groups) -> None:
        self._state = state
        self._groups = groups
        self.names: dict[int, tuple[str, str]] = {}  # pod uid and container id, by slot

    def call(self, agent: Agent, report: Report, tables: Tables, now_s: float) -> Keys | None:
        """Take over who is found and who is gone. Whom this report may name; None: too early to say."""
        listing = not agent.listed
        told = any(self.names[slot][0] in agent.pods for slot in agent.slot_of_id.values())
        if listing and agent.restarted and not report.found and told:
            # A new agent may not have looked yet. What its predecessor has limited stays counted.
            return None
        known = {} if listing else agent.keys.slot_of
        gone = set(tables.gone.tolist())  # also some that came and went between two reports
        gone_ids = {self.names[known[key]][1] for key in gone & known.keys() if known[key] >= 0}
        staying = set() if listing else agent.slot_of_id.keys() - gone_ids
        check_roll(report, tables, known, gone, staying)

        slots = {key: slot for key, slot in known.items() if key not in gone}
        unlisted = {} if listing else {key: uid for key, uid in agent.unlisted.items() if key not in gone}
        limited = _joined(tables.cpu_accounts), _joined(tables.memory_accounts)
        for container_id in gone_ids:
            self._lose(agent, container_id)
        for found in report.found:
            slot = agent.slot_of_id.get(found.container_id, -1)
            slots[found.key] = slot = slot if slot >= 0 else self._add(agent, found)
            if slot >= 0:
                self._state.slots.key[slot] = found.key
                self._state.slots.found_at_s[slot] = now_s
                self._state.slots.registering[slot] = (
                    not all(found.key in of for of in limited) and not self._state.slots.shadow[slot]
                )
            elif any(found.key in of for of in limited):
                unlisted[found.key] = found.pod_uid
        if listing:
            found_ids = {f.container_id for f in report.found}
            for container_id in agent.slot_of_id.keys() - found_ids:
                self._lose(agent, container_id)
            if agent.restarted:
                for application in agent.reserves.keys() - {r.application for r in report.reserves}:
                    self._state.remove(agent.reserves.pop(application))
        agent.keys, agent.listed, agent.restarted, agent.unlisted = Keys(slots), True, False, unlisted
        tell_changed(
            agent, {self.names[slot][0] for slot in agent.slot_of_id.values()} | set(unlisted.values())
        )
        return Keys(slots | dict.fromkeys(gone, -1)) if gone else agent.keys

    def lose_all(self, agent: Agent) -> None:
        for container_id in list(agent.slot_of_id):
            self._lose(agent, container_id)
        for slot in agent.reserves.values():
            self._state.remove(slot)
        agent.keys, agent.reserves, agent.unlisted = Keys({}), {}, {}
        tell_changed(agent, set())

    def slots_of_pod(self, agent: Agent, uid: str) -> list[int]:
        return [slot for slot in agent.slot_of_id.values() if self.names[slot][0] == uid]

    def set_ceilings(self, slot: int, pod: Pod, found: Found | None = None) -> None:
        """As the pod's spec has them; until the API server has the container's id, as its agent has them."""
        of = self._state.slots
        ceiling = next((c for c in pod.ceilings if c.container_id == self.names[slot][1]), found)
        if ceiling is None:
            return
        of.cpu_ceiling_us[slot] = ceiling.quota_us or NO_CEILING
        of.memory_ceiling_bytes[slot] = ceiling.memory_bytes or NO_CEILING
        self._state.set_floors(int(of.group[slot]), np.array([slot]))
        self._state.memory_changed = True

    def _add(self, agent: Agent, found: Found) -> int:
        pod = agent.pods.get(found.pod_uid)
        if pod is None:
            return -1
        group = self._groups.of(pod.application)
        slot = self._state.add_container(group.index, agent.index, shadow=not pod.enforce)
        self.names[slot] = (found.pod_uid, found.container_id)
        agent.slot_of_id[found.container_id] = slot
        self._state.slots.confirmed[slot] = agent.node in group.confirmed
        self.set_ceilings(slot, pod, found)
        return slot

    def _lose(self, agent: Agent, container_id: str) -> None:
        slot = agent.slot_of_id.pop(container_id)
        del self.names[slot]
        self._state.remove(slot)


def _joined(accounts: Integers) -> set[int]:
    """Keys of containers that have limits of ours."""
    return set(accounts[0][accounts[ACCOUNT_ROWS.index("joined")] != 0].tolist())
