"""Sync functions and pods to one HAProxy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import structlog

from function_gateway.backends import Pod, Server, desired, difference, read_back, slot_number
from function_gateway.configuration import SYNCED, backend_name, move_on, replica_name
from function_gateway.endpoints import Function
from function_gateway.quotas import admit
from function_gateway.settings import Settings
from surgekit.haproxy.runtime import Runtime, refusals
from surgekit.haproxy.slots import Slots
from surgekit.haproxy.traffic import OWN_BACKEND

__all__ = ["Balancer", "Refused", "Served"]

log = structlog.get_logger(__name__)


class Refused(Exception):
    """HAProxy refused a command."""


@dataclass(frozen=True)
class Served:
    """A function that has a backend."""

    function: Function
    backend: str
    pods: int
    capacity: int  # requests that its pods take at once
    without_slot: int  # pods that got no slot


class _Backend:
    """The state of one backend, as last sent to HAProxy."""

    def __init__(self, slots: Slots, sent: dict[int, Server]) -> None:
        self.slots, self.sent = slots, sent
        self.pods: Sequence[Pod] | None = None  # the pods last sent; None before the first sync

    def commands_for(self, name: str, pods: Sequence[Pod]) -> list[str]:
        if pods == self.pods:  # fast: mostly the same object
            return []
        now = desired(self.slots, pods)
        commands = difference(name, self.sent, now)
        self.sent, self.pods = now, pods
        return commands


class Balancer:
    """Used from one thread. Other threads read `served`, which is replaced as a whole."""

    def __init__(self, settings: Settings, haproxy: Runtime) -> None:
        self._settings, self._haproxy = settings, haproxy
        self._identity = ""
        self._functions = Slots(settings.functions)
        self._backends: dict[int, _Backend] = {}
        self._replicas = Slots(settings.most_replicas)  # by address
        self._admitted: set[str] = set()  # addresses that may forward, as HAProxy has them
        self._left: dict[str, Mapping[str, int]] = {}  # functions that moved away -> pod -> requests
        self._hosts: dict[str, str] = {}  # the map as HAProxy has it: host -> backend
        self._overflow: dict[str, str] = {}  # the same of the map of overflow
        self.served: Mapping[Function, Served] = {}
        self.without_backend: Mapping[Function, str] = {}  # functions without a backend -> the reason
        self.starts = 0  # HAProxy processes seen

    def is_restarted(self) -> bool:
        """Whether HAProxy restarted since the last sync."""
        return self._haproxy.identity() != self._identity

    def forget(self) -> None:
        """Discard the known state of HAProxy; the next sync reads it back first."""
        self._identity = ""

    def sync(
        self,
        functions: Mapping[Function, Sequence[Pod]],
        overflow: Mapping[Function, str] | None = None,
        elsewhere: Mapping[Function, str] | None = None,
        replicas: Collection[str] = (),
    ) -> None:
        """Make HAProxy serve exactly these functions, and let those in `overflow` use the emergency track.
        Requests for functions `elsewhere` go to the replica with that address; `replicas` may forward
        requests here. After OSError or Refused, call `forget` and sync again later."""
        identity = self._haproxy.identity()
        restarted = identity != self._identity
        if restarted:
            self._read()
            log.info("haproxy found", pid=identity, functions=len(self._hosts))
        limits = self._settings.functions, self._settings.functions_per_namespace
        admitted = admit(functions, self._functions.taken.keys(), *limits)
        by_host = {function.host: function for function in admitted.functions}
        others = {function.host: address for function, address in (elsewhere or {}).items()}
        self._sync_replicas(replicas, set(others.values()))
        leaving = [host for host in others if self._hosts.get(host, "").startswith(OWN_BACKEND)]
        self._left |= {host: {} for host in leaving}
        self._left = {host: pods for host, pods in self._left.items() if host not in by_host}
        hosts = {host: replica_name(self._replicas.taken[address]) for host, address in others.items()}
        gone = [host for host in self._hosts if host not in by_host and host not in hosts]
        left_alone = [self._hosts[host] for host in gone if self._hosts[host].startswith(OWN_BACKEND)]
        # First, so that a backend that changes owner gets no more requests of its former function.
        self._command([f"del map {self._settings.map_file} {host}" for host in gone])
        self._map({host: backend for host, backend in hosts.items() if host in self._hosts})
        # A function that moved away keeps its backend until its last request here has ended.
        self._functions.update([*by_host, *(host for host in self._left if host not in by_host)])
        commands: list[str] = []
        served: dict[Function, Served] = {}
        owners = {number: host for host, number in self._functions.taken.items()}
        for number in sorted(self._backends.keys() | owners.keys()):
            backend, function = self._backend(number), by_host.get(owners.get(number, ""))
            commands += backend.commands_for(backend_name(number), functions[function] if function else ())
            if function:
                served[function] = _served(function, number, backend)
        commands += [move_on(backend_name(self._functions.taken[host])) for host in leaving]
        if self._settings.ingress:  # which takes what waits for a function that is gone
            commands += [move_on(backend) for backend in left_alone]
        self._command(commands)
        # Last, so that a function's requests reach its backend only when its pods are set.
        hosts |= {host: backend_name(n) for host, n in self._functions.taken.items() if host in by_host}
        self._map(hosts)
        self._hosts = hosts
        self._sync_overflow({f.host: how for f, how in (overflow or {}).items() if f.host in by_host})
        if restarted:
            if self._haproxy.identity() != identity:
                raise Refused("HAProxy restarted during the sync")
            self._command([f"set server {SYNCED}/{SYNCED} weight 1"])
            self._identity = identity
            self.starts += 1
        self.served, self.without_backend = served, admitted.without

    @property
    def gives_out(self) -> set[str]:
        """Hosts of functions whose slots HAProxy gives out; of use after a restart of this process."""
        entries = self._haproxy.map_entries(self._settings.map_file)
        return {host for host, backend in entries.items() if backend.startswith(OWN_BACKEND)}

    def in_flight(self) -> Mapping[str, Mapping[str, int]]:
        """Requests that pods still have of functions that moved away: host -> pod -> count."""
        for host in list(self._left):
            number = self._functions.taken.get(host)
            pods: dict[str, int] = {}
            if number is not None:
                slots = self._backend(number).slots.last
                for name, count in self._haproxy.in_use(backend_name(number)).items():
                    if count and (slot := slot_number(name)) is not None and slot in slots:
                        pods[slots[slot]] = pods.get(slots[slot], 0) + count
            self._left[host] = pods
            if not pods:
                del self._left[host]
        return self._left

    def _map(self, wanted: Mapping[str, str]) -> None:
        """Bring entries of HAProxy's map up to date; others stay."""
        file, commands = self._settings.map_file, []
        for host, backend in wanted.items():
            if host not in self._hosts:
                commands.append(f"add map {file} {host} {backend}")
            elif self._hosts[host] != backend:
                commands.append(f"set map {file} {host} {backend}")
        self._command(commands)
        self._hosts |= wanted

    def _sync_replicas(self, admitted: Collection[str], owners: Collection[str]) -> None:
        if not self._settings.replicas_service:
            return
        before, file = dict(self._replicas.taken), self._settings.replicas_map
        self._replicas.update(sorted(owners))
        commands = [f"add map {file} {address} 1" for address in set(admitted) - self._admitted]
        commands += [f"del map {file} {address}" for address in self._admitted - set(admitted)]
        for address in before.keys() - self._replicas.taken.keys():
            name = replica_name(before[address])
            commands += [f"set server {name}/replica weight 0", move_on(name)]
        for address in self._replicas.taken.keys() - before.keys():
            name = f"{replica_name(self._replicas.taken[address])}/replica"
            commands += [
                f"set server {name} addr {address} port {self._settings.forward_port}",
                f"set server {name} weight 1",
            ]
        self._command(commands)
        self._admitted = set(admitted)

    def _sync_overflow(self, now: dict[str, str]) -> None:
        file, before = self._settings.overflow_map, self._overflow
        commands = [f"del map {file} {host}" for host in before.keys() - now.keys()]
        commands += [f"add map {file} {host} {now[host]}" for host in now.keys() - before.keys()]
        commands += [f"set map {file} {h} {how}" for h, how in now.items() if before.get(h, how) != how]
        self._command(commands)
        self._overflow = now

    def _read(self) -> None:
        """Read HAProxy's maps: empty if HAProxy is new, complete if this process restarted."""
        self._overflow = self._haproxy.map_entries(self._settings.overflow_map)
        self._hosts = self._haproxy.map_entries(self._settings.map_file)
        own = {h: int(b.removeprefix(OWN_BACKEND)) for h, b in self._hosts.items() if b[0] == OWN_BACKEND}
        self._functions = Slots(self._settings.functions, {n: host for host, n in own.items()})
        self._backends, self._left = {}, {}
        for number in own.values():
            self._backend(number)
        self._replicas = Slots(self._settings.most_replicas)
        if self._settings.replicas_service:
            self._admitted = set(self._haproxy.map_entries(self._settings.replicas_map))
            servers = {
                number: server
                for number in range(self._settings.most_replicas)
                for server in self._haproxy.servers(replica_name(number))
                if server.name == "replica" and server.weight
            }
            taken = {number: server.address for number, server in servers.items()}
            self._replicas = Slots(self._settings.most_replicas, taken)

    def _backend(self, number: int) -> _Backend:
        """The backend, read from HAProxy before its first use: a former balancer may have left it half
        synced."""
        if number not in self._backends:
            servers = self._haproxy.servers(backend_name(number))
            self._backends[number] = _Backend(*read_back(self._settings.slots, servers))
        return self._backends[number]

    def _command(self, commands: list[str]) -> None:
        if commands and (said := refusals(self._haproxy.run(commands))):
            raise Refused(said[0])


def _served(function: Function, number: int, backend: _Backend) -> Served:
    return Served(
        function,
        backend_name(number),
        pods=len(backend.sent),
        capacity=sum(server.maxconn for server in backend.sent.values()),
        without_slot=len(backend.slots.without),
    )
