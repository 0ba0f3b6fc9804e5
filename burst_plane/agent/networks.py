"""Network namespaces of instances: made ahead by the node's CNI plugins, used once, then removed.

Making one takes 20 to 100 ms, so some are always ready. Each has an address, a route out, and its rules
(`burst_plane.instance.firewall`) before an instance sees it. Names and CNI results lie in files on tmpfs, so
that an agent that was killed finds and removes what it had made. The namespaces are mounted beside them, not
in /run/netns: iproute2 mounts that directory over itself when it first uses it, and then what was mounted
there before can no more be removed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import msgspec
import structlog

from burst_plane.agent.kernel import SEARCH_PATH, announce, bring_up, make_network_namespace, run, unmount
from burst_plane.instance.cni import (
    Chain,
    NetworkError,
    address_of,
    bridge_name,
    own_bridge,
    read_chain,
    request,
)
from burst_plane.instance.firewall import Rules, restore

__all__ = ["Network", "NetworkFault", "Networks", "node_addresses", "node_resolvers"]

log = structlog.get_logger(__name__)

_LINK = "eth0"
_NICENESS = 10
_LONGEST_MESSAGE = 300


class NetworkFault(Exception):
    """A network namespace that cannot be made."""


@dataclass(frozen=True)
class Network:
    name: str
    path: Path
    address: str


class Networks:
    def __init__(
        self,
        name: str,
        directory: Path,
        configuration: Path,
        plugins: Iterable[str],
        subnet: str,
        rules: Rules,
    ) -> None:
        self._name, self._subnet = name, subnet
        self._results, self._namespaces = directory / "networks", directory / "namespaces"
        self._plugins = tuple(plugins)
        self._chain = _node_chain(configuration)
        self._own = self._chain is None
        if self._chain is None:
            self._chain = own_bridge(name, subnet, str(directory / "addresses"))
            gateway = str(next(IPv4Network(subnet).hosts()))
            rules = replace(rules, instances=subnet, node=rules.node | {gateway})
        self._rules = rules
        self._gateways, self._admitted = rules.gateways, set[str]()  # by the settings, and while they watch
        self._allowing = asyncio.Lock()
        self._all: dict[str, Network] = {}
        self._ready: list[Network] = []
        self.made_total = 0

    @property
    def ready(self) -> int:
        return len(self._ready)

    def belong_to(self, node: frozenset[str]) -> None:
        """The node's own addresses."""
        self._rules = replace(self._rules, node=self._rules.node | node)

    async def begin(self) -> None:
        """Remove what an earlier agent left. Raise NetworkFault."""
        self._results.mkdir(parents=True, exist_ok=True)
        self._namespaces.mkdir(parents=True, exist_ok=True)
        await self._remove_all()
        if self._own:
            await self._own_rules("-A")

    async def end(self) -> None:
        await self._remove_all()
        self._all.clear()
        self._ready.clear()
        if self._own:
            await self._own_rules("-D")
            await run(["ip", "link", "delete", bridge_name(self._name)])

    async def _remove_all(self) -> None:
        """Also what was being made when the agent was stopped."""
        names = {path.name for path in self._namespaces.iterdir()}
        for name in sorted(names | {path.stem for path in self._results.glob("*.json")}):
            await self._remove(name)

    def take(self) -> Network | None:
        """One that is ready."""
        return self._ready.pop() if self._ready else None

    async def fill(self) -> None:
        """Make one more ready. Raise NetworkFault."""
        self._ready.append(await self.make())

    async def make(self) -> Network:
        """Raise NetworkFault."""
        name = f"{self._name}-{secrets.token_hex(4)}"
        path = self._namespaces / name
        try:
            await asyncio.to_thread(make_network_namespace, path, _in_new_namespace)
            result = await self._add(name, path)
            network = Network(name, path, address_of(result))
            rules: Rules | None = None
            while rules != self._rules:  # a gateway may come meanwhile
                rules = self._rules
                await self._restore(path, restore(rules))
            # Addresses are used again soon, and neighbours still know the one before. Plugins announce it too
            # early: before the link's other end takes part.
            await asyncio.to_thread(announce, path, _LINK, network.address)
        except (OSError, NetworkError, NetworkFault) as error:
            await self._remove(name)
            raise NetworkFault(str(error)) from error
        self._all[name] = network
        self.made_total += 1
        return network

    async def remove(self, network: Network) -> None:
        """Its instance is gone. A namespace is never used twice."""
        self._all.pop(network.name, None)
        await self._remove(network.name)

    async def admit(self, gateway: str) -> None:
        """Let this address send requests to all instances."""
        try:
            IPv4Address(gateway)
        except ValueError:
            return
        if gateway not in self._rules.node and not IPv4Address(gateway).is_loopback:
            self._admitted.add(gateway)
        await self._allow()

    async def dismiss(self, gateway: str) -> None:
        """Not any more: the address may soon be somebody else's."""
        self._admitted.discard(gateway)
        await self._allow()

    async def _allow(self) -> None:
        """Returns when it holds for all instances."""
        async with self._allowing:
            wanted = frozenset(self._gateways | self._admitted)
            if wanted == self._rules.gateways:
                return
            self._rules = replace(self._rules, gateways=wanted)
            for network in list(self._all.values()):
                try:
                    await self._restore(network.path, restore(self._rules))
                except NetworkFault as error:  # it may be gone meanwhile
                    log.info("gateways of an instance not changed", network=network.name, error=str(error))

    async def _add(self, name: str, path: Path) -> dict[str, Any]:
        assert self._chain is not None  # noqa: S101  (set by the constructor)
        result: dict[str, Any] | None = None
        for plugin in self._chain.plugins:
            out = await self._call("ADD", name, path, plugin["type"], request(self._chain, plugin, result))
            try:
                result = msgspec.json.decode(out, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                raise NetworkFault(f"CNI plugin {plugin['type']}: {error}") from error
            self._file(name).write_bytes(msgspec.json.encode(result))
        return result or {}

    async def _remove(self, name: str) -> None:
        """Whatever there is of it. DEL is called even if ADD was not: plugins expect that."""
        assert self._chain is not None  # noqa: S101  (set by the constructor)
        path = self._namespaces / name
        result: dict[str, Any] | None = None
        with suppress(OSError, msgspec.MsgspecError):
            result = msgspec.json.decode(self._file(name).read_bytes(), type=dict[str, Any])
        for plugin in reversed(self._chain.plugins):
            try:
                await self._call("DEL", name, path, plugin["type"], request(self._chain, plugin, result))
            except (NetworkFault, OSError) as error:
                log.warning("network not given back", network=name, error=str(error))
        try:
            unmount(path)
            path.unlink(missing_ok=True)
            self._file(name).unlink(missing_ok=True)
        except OSError as error:
            log.error("network not removed", network=name, error=str(error))

    async def _call(self, command: str, name: str, path: Path, kind: str, stdin: bytes) -> bytes:
        program = next((p for d in self._plugins if os.access(p := os.path.join(d, kind), os.X_OK)), None)
        if program is None:
            raise NetworkFault(f"CNI plugin {kind} is in none of {', '.join(self._plugins)}")
        environment = {
            "CNI_COMMAND": command, "CNI_CONTAINERID": name, "CNI_NETNS": str(path), "CNI_IFNAME": _LINK,
            "CNI_PATH": os.pathsep.join(self._plugins), "PATH": SEARCH_PATH,
        }  # fmt: skip
        code, out, err = await run(
            [program], stdin=stdin, environment=environment, timeout_s=30.0, niceness=_NICENESS
        )
        if code != 0:
            said = (out + err).decode(errors="replace").strip()[-_LONGEST_MESSAGE:]
            raise NetworkFault(f"CNI plugin {kind}, {command}: {said}")
        return out

    async def _restore(self, path: Path, rules: str, *options: str) -> None:
        argv = ["nsenter", f"--net={path}", "iptables-restore", *options]
        code, _, err = await run(argv, stdin=rules.encode(), timeout_s=30.0, niceness=_NICENESS)
        if code != 0:
            said = err.decode(errors="replace").strip()[-_LONGEST_MESSAGE:]
            raise NetworkFault(f"iptables-restore: {said}")

    async def _own_rules(self, what: str) -> None:
        """The node forwards for our bridge, and hides instances' addresses behind its own."""
        bridge = bridge_name(self._name)
        for table, chain, rule in (
            ("nat", "POSTROUTING", ["-s", self._subnet, "!", "-d", self._subnet, "-j", "MASQUERADE"]),
            ("filter", "FORWARD", ["-i", bridge, "-j", "ACCEPT"]),
            ("filter", "FORWARD", ["-o", bridge, "-j", "ACCEPT"]),
        ):
            there, *_ = await run(["iptables", "-w", "-t", table, "-C", chain, *rule])
            if (there == 0) == (what == "-A"):
                continue
            code, _, err = await run(["iptables", "-w", "-t", table, what, chain, *rule])
            if code != 0 and what == "-A":
                raise NetworkFault(f"iptables: {err.decode(errors='replace').strip()[-_LONGEST_MESSAGE:]}")

    def _file(self, name: str) -> Path:
        return self._results / f"{name}.json"


async def node_addresses() -> frozenset[str]:
    code, out, _ = await run(["ip", "-json", "-4", "address"])
    try:
        links = msgspec.json.decode(out, type=list[dict[str, Any]]) if code == 0 else []
    except msgspec.MsgspecError:
        return frozenset()
    found = (str(each.get("local", "")) for link in links for each in link.get("addr_info", ()))
    return frozenset(each for each in found if each and not each.startswith("127."))


def node_resolvers(file: Path = Path("/etc/resolv.conf")) -> tuple[str, ...]:
    """Those that an instance can reach, too: none that answers on loopback only."""
    found = []
    with suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            words = line.split()
            with suppress(ValueError):
                if words[:1] == ["nameserver"] and not IPv4Address(words[1]).is_loopback:
                    found.append(words[1])
    return tuple(found[:3])


def _node_chain(configuration: Path) -> Chain | None:
    """The node's own, as the container runtime would choose it: the first file."""
    files = [configuration] if configuration.is_file() else sorted(configuration.glob("*.conf*"))
    for file in files:
        try:
            return read_chain(file.read_bytes())
        except (OSError, NetworkError) as error:
            log.warning("CNI configuration not used", file=str(file), error=str(error))
    return None


def _in_new_namespace() -> None:
    # Link-local IPv6 addresses would go around the rules. A kernel without IPv6 has no such files.
    for which in ("all", "default"):
        with suppress(FileNotFoundError):
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")
    bring_up("lo")
