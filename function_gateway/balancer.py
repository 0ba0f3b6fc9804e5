"""Keeps one HAProxy told of all functions and their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from function_gateway.backends import Pod, Server, difference, known, wanted
from function_gateway.configuration import TOLD, backend_name
from function_gateway.endpoints import Function
from function_gateway.quotas import admit
from function_gateway.settings import Settings
from surgekit.haproxy.runtime import Runtime, refusals
from surgekit.haproxy.slots import Slots

__all__ = ["Balancer", "Refused", "Served"]

log = structlog.get_logger(__name__)


class Refused(Exception):
    """HAProxy did not do as it was told."""


@dataclass(frozen=True)
class Served:
    """A function as HAProxy knows it."""

    function: Function
    backend: str
    pods: int
    capacity: int  # requests at once
    without_slot: int  # pods that found none


class _Backend:
    """What HAProxy was told of one backend."""

    def __init__(self, slots: Slots, told: dict[int, Server]) -> None:
        self.slots, self.told = slots, told
        self.pods: Sequence[Pod] | None = None  # of whom that was; None: not known

    def tell(self, name: str, pods: Sequence[Pod]) -> list[str]:
        if pods == self.pods:  # quick, as it is mostly the same object
            return []
        now = wanted(self.slots, pods)
        commands = difference(name, self.told, now)
        self.told, self.pods = now, pods
        return commands


class Balancer:
    """Used from one thread; only `served` is read by others, and replaced as a whole."""

    def __init__(self, settings: Settings, haproxy: Runtime) -> None:
        self._settings, self._haproxy = settings, haproxy
        self._identity = ""
        self._functions = Slots(settings.functions)
        self._backends: dict[int, _Backend] = {}
        self._hosts: dict[str, int] = {}  # the map as HAProxy has it
        self.served: Mapping[Function, Served] = {}
        self.without_backend: Mapping[Function, str] = {}  # functions that got none, and why
        self.starts = 0  # HAProxys seen

    def is_new(self) -> bool:
        """Whether HAProxy is another than the one that was told."""
        return self._haproxy.identity() != self._identity

    def forget(self) -> None:
        """What HAProxy knows is not certain (any more): it is read again before it is told more."""
        self._identity = ""

    def tell(self, functions: Mapping[Function, Sequence[Pod]]) -> None:
        """Make HAProxy serve exactly these. OSError or Refused: call `forget`, and tell again later."""
        identity = self._haproxy.identity()
        is_new = identity != self._identity
        if is_new:
            self._read()
            log.info("haproxy found", pid=identity, functions=len(self._hosts))
        limits = self._settings.functions, self._settings.functions_per_namespace
        admitted = admit(functions, self._functions.taken.keys(), *limits)
        by_host = {function.host: function for function in admitted.functions}
        gone = [host for host in self._hosts if host not in by_host]
        # First, so that a backend that changes hands gets no more requests of its former function.
        self._command([f"del map {self._settings.map_file} {host}" for host in gone])
        self._functions.update(by_host)
        self._hosts = {host: number for host, number in self._hosts.items() if host in by_host}
        commands: list[str] = []
        served: dict[Function, Served] = {}
        owners = {number: by_host[host] for host, number in self._functions.taken.items()}
        for number in sorted(self._backends.keys() | owners.keys()):
            backend, function = self._backend(number), owners.get(number)
            commands += backend.tell(backend_name(number), functions[function] if function else ())
            if function:
                served[function] = _served(function, number, backend)
        self._command(commands)
        # Last: a backend is known under its function's name once its pods are.
        new = {host: n for host, n in self._functions.taken.items() if host not in self._hosts}
        additions = [f"add map {self._settings.map_file} {host} {backend_name(n)}" for host, n in new.items()]
        self._command(additions)
        self._hosts |= new
        if is_new:
            if self._haproxy.identity() != identity:
                raise Refused("another HAProxy was started meanwhile")
            self._command([f"set server {TOLD}/{TOLD} weight 1"])
            self._identity = identity
            self.starts += 1
        self.served, self.without_backend = served, admitted.without

    def _read(self) -> None:
        """What HAProxy was told already: nothing if it is new, all if it is us who were started again."""
        entries = self._haproxy.map_entries(self._settings.map_file)
        self._hosts = {host: int(backend.removeprefix("f")) for host, backend in entries.items()}
        self._functions = Slots(self._settings.functions, {n: host for host, n in self._hosts.items()})
        self._backends = {}
        for number in self._hosts.values():
            self._backend(number)

    def _backend(self, number: int) -> _Backend:
        """Read before its first use: who drove HAProxy before may have left it half told."""
        if number not in self._backends:
            servers = self._haproxy.servers(backend_name(number))
            self._backends[number] = _Backend(*known(self._settings.slots, servers))
        return self._backends[number]

    def _command(self, commands: list[str]) -> None:
        if commands and (said := refusals(self._haproxy.tell(commands))):
            raise Refused(said[0])


def _served(function: Function, number: int, backend: _Backend) -> Served:
    return Served(
        function,
        backend_name(number),
        pods=len(backend.told),
        capacity=sum(server.maxconn for server in backend.told.values()),
        without_slot=len(backend.slots.without),
    )
