"""The agent as a process: everything in one asyncio loop, health pages in a thread beside it.

It is no `surgekit.process.controller.Controller`, and does not run under gunicorn, for the reasons of
`limit_allocator.agent.controller`: it cannot talk to the API server, and opens its own ports.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import CollectorRegistry

from burst_plane.agent.cgroups import Cgroups
from burst_plane.agent.container import Workshop
from burst_plane.agent.images import ImageFault, Images
from burst_plane.agent.kernel import SEARCH_PATH, become_subreaper, reap_others
from burst_plane.agent.logs import Logs
from burst_plane.agent.metrics import PulseletMetrics
from burst_plane.agent.networks import NetworkFault, Networks, node_addresses, node_resolvers
from burst_plane.agent.pulselet import Pulselet
from burst_plane.agent.runtime import OciRuntime
from burst_plane.agent.settings import Settings
from burst_plane.agent.stock import Stock
from burst_plane.instance.firewall import Rules
from burst_plane.instance.share import Amount, Share
from burst_plane.wire.messages import PULSELET, EndRequest, PrepareRequest, StartRequest, WatchRequest
from surgekit.process import logs
from surgekit.process.bind import address, refused
from surgekit.process.health_server import health_port
from surgekit.process.listener import Listener
from surgekit.process.settings import SettingsError
from surgekit.wire.server import Method, WireServer

__all__ = ["Process", "run"]

log = structlog.get_logger(__name__)

_BEAT_S = 1.0
_CLEAN_S = 3600.0
_STUCK_S = 15.0
_NICENESS = -10  # a request waits for each start; what is prepared is done at 10


class Process:
    """Everything of one agent. Made and run in the loop."""

    def __init__(self, settings: Settings) -> None:
        """Raise SettingsError."""
        self._settings = settings
        runtime = shutil.which(settings.runtime, path=SEARCH_PATH)
        if runtime is None:
            raise SettingsError(f"runtime: {settings.runtime!r} is not there, or cannot be run")
        share = Share(_share(settings))
        directory = settings.directory
        resolvers = settings.nameservers or node_resolvers()
        self._cgroups = Cgroups(settings.cgroup_mount, settings.name)
        self._logs = Logs(
            settings.log_directory, settings.node_name, settings.log_mib << 20, settings.log_kib_s << 10,
            settings.log_total_mib << 20,
        )  # fmt: skip
        self._workshop = Workshop(
            directory, OciRuntime(runtime, directory / "runtime"), self._cgroups, self._logs, resolvers,
            settings.cluster_domain,
        )  # fmt: skip
        self._images = Images(
            settings.containerd, settings.name, settings.kubelet_namespace, settings.allowed_images,
            settings.pull_timeout_s,
        )  # fmt: skip
        self._rules = Rules(
            frozenset(), "", frozenset(settings.gateways), settings.denied, settings.allowed, resolvers
        )
        self._networks = Networks(
            settings.name,
            directory,
            settings.cni_configuration,
            settings.cni_plugins,
            settings.subnet,
            self._rules,
        )
        total = share.total
        self._stock = Stock(
            self._workshop, self._images, self._networks, share,
            ready_bytes=int(total.memory_bytes * settings.ready_share),
            created_bytes=settings.created_mib << 20, spare_networks=settings.networks,
            changed=lambda: self._pulselet.changed(),  # noqa: PLW0108  (made below)
        )  # fmt: skip
        self._pulselet = Pulselet(
            settings.node_name, self._workshop, self._stock, self._networks, share, settings.most_instances,
            settings.lost_after_s, settings.placement_names,
        )  # fmt: skip
        self._metrics = PulseletMetrics(self._pulselet, self._stock)
        placements, controllers = frozenset(settings.placement_names), frozenset(settings.controller_names)
        self.server = WireServer(
            settings.bind, settings.tls_directory, PULSELET,
            {
                "Start": Method.unary(StartRequest, placements, self._pulselet.start),
                "End": Method.unary(EndRequest, placements, self._pulselet.end),
                "Prepare": Method.unary(PrepareRequest, controllers, self._pulselet.prepare),
                "Watch": Method.stream(WatchRequest, placements | controllers, self._pulselet.watch),
            },
        )  # fmt: skip
        self._share = total
        self._began_s = time.monotonic()
        self._serving = False

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping` is set; then what runs may end. Raise SettingsError if the node is not usable."""
        try:
            await asyncio.to_thread(self._begin)
            self._networks.belong_to(await node_addresses())
            await self._networks.begin()
        except (OSError, NetworkFault) as error:
            raise SettingsError(f"this node cannot run instances: {error}") from error
        tasks = [
            asyncio.create_task(each)
            for each in (self._stock.keep(), self._pulselet.sweep(), self._beat(), self._clean())
        ]
        await self.server.start()
        self._serving = True
        log.info("agent started", node=self._settings.node_name, port=self.server.port)
        try:
            await _first(asyncio.create_task(stopping.wait()), *tasks)
            log.info("agent drains", running=self._pulselet.running)
            await self._pulselet.drain(self._settings.drain_s)
        finally:
            self._serving = False
            await self.server.stop(0.2)
            for task in tasks:
                task.cancel()
            await self._pulselet.stop()
            await self._networks.end()
            await asyncio.to_thread(self._cgroups.end)

    def _begin(self) -> None:
        self._workshop.begin()
        self._logs.begin()
        self._cgroups.begin(self._share.cpu_millis, self._share.memory_bytes)

    async def _beat(self) -> None:
        while True:
            self._began_s = time.monotonic()
            reap_others()
            await asyncio.sleep(_BEAT_S)

    async def _clean(self) -> None:
        """Logs and images of functions that are gone. The controller has told by then which are not."""
        while True:
            await asyncio.sleep(_CLEAN_S)
            try:
                await asyncio.to_thread(self._logs.clean)
                await self._images.clean(self._stock.images())
            except (OSError, ImageFault) as error:
                log.warning("not cleaned up", error=str(error))

    # Health

    @property
    def registry(self) -> CollectorRegistry:
        return self._metrics.registry

    def alive(self, now_s: float) -> bool:
        return now_s - self._began_s < _STUCK_S

    def not_ready(self, now_s: float) -> str:  # noqa: ARG002
        return "" if self._serving and not self._pulselet.draining else "starting, or draining"


async def _first(*tasks: asyncio.Task[Any]) -> None:
    """Wait for one, and raise what it raised: an agent that no longer sweeps must end, and start anew."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    logs.configure(settings.log_level)
    become_subreaper()
    with suppress(PermissionError):  # without CAP_SYS_NICE it is slower on a busy node, and no worse
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    settings.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = _hold(settings.directory / "lock")
    try:
        asyncio.run(_serve(settings))
    finally:
        os.close(lock)
    log.info("agent stopped")


async def _serve(settings: Settings) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    process = Process(settings)
    port = _listen(settings.health_bind, process)
    port.start()
    try:
        await process.run(stopping)
    finally:
        port.stop()


def _listen(bind: str, process: Process) -> Listener:
    try:
        return Listener(address("health_bind", bind), health_port(process))
    except OSError as error:
        raise refused("health_bind", bind, error) from error


def _hold(path: Path) -> int:
    """Wait for another agent of this node, which may drain, to end."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _share(settings: Settings) -> Amount:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = os.cpu_count() or 1
    return Amount(
        settings.cpu_millis or int(cores * 1000 * settings.share),
        settings.memory_mib << 20 or int(memory * settings.share),
    )
