"""Sync functions and pods to one HAProxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from function_gateway.backends import Pod, Server, desired, difference, read_back
from function_gateway.configuration import SYNCED, backend_name
from function_gateway.endpoints import Function
from function_gateway.quotas import admit
from function_gateway.settings import Settings
from surgekit.haproxy.runtime import Runtime, refusals
from surgekit.haproxy.slots import Slots

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
        self._hosts: dict[str, int] = {}  # the map as HAProxy has it: host -> backend
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
        self, functions: Mapping[Function, Sequence[Pod]], overflow: Mapping[Function, str] | None = None
    ) -> None:
        """Make HAProxy serve exactly these functions, and let those in `overflow` use the emergency track.
        After OSError or Refused, call `forget` and sync again later."""
        identity = self._haproxy.identity()
        restarted = identity != self._identity
        if restarted:
            self._read()
            log.info("haproxy found", pid=identity, functions=len(self._hosts))
        limits = self._settings.functions, self._settings.functions_per_namespace
        admitted = admit(functions, self._functions.taken.keys(), *limits)
        by_host = {function.host: function for function in admitted.functions}
        gone = [host for host in self._hosts if host not in by_host]
        # First, so that a backend that changes owner gets no more requests of its former function.
        self._command([f"del map {self._settings.map_file} {host}" for host in gone])
        self._functions.update(by_host)
        self._hosts = {host: number for host, number in self._hosts.items() if host in by_host}
        commands: list[str] = []
        served: dict[Function, Served] = {}
        owners = {number: by_host[host] for host, number in self._functions.taken.items()}
        for number in sorted(self._backends.keys() | owners.keys()):
            backend, function = self._backend(number), owners.get(number)
            commands += backend.commands_for(backend_name(number), functions[function] if function else ())
            if function:
                served[function] = _served(function, number, backend)
        self._command(commands)
        # Last, so that a function's requests reach its backend only when its pods are set.
        new = {host: n for host, n in self._functions.taken.items() if host not in self._hosts}
        additions = [f"add map {self._settings.map_file} {host} {backend_name(n)}" for host, n in new.items()]
        self._command(additions)
        self._hosts |= new
        self._sync_overflow({f.host: how for f, how in (overflow or {}).items() if f.host in self._hosts})
        if restarted:
            if self._haproxy.identity() != identity:
                raise Refused("HAProxy restarted during the sync")
            self._command([f"set server {SYNCED}/{SYNCED} weight 1"])
            self._identity = identity
            self.starts += 1
        self.served, self.without_backend = served, admitted.without

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
        entries = self._haproxy.map_entries(self._settings.map_file)
        self._hosts = {host: int(backend.removeprefix("f")) for host, backend in entries.items()}
        self._functions = Slots(self._settings.functions, {n: host for host, n in self._hosts.items()})
        self._backends = {}
        for number in self._hosts.values():
            self._backend(number)

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
