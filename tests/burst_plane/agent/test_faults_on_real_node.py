"""The node agent with runc and containerd: the node fails it, or an instance tries to leave its frame."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from burst_plane.agent.images import Images
from burst_plane.model import Function, InstanceSpec, Preparation, Security
from burst_plane.wire.messages import EndReply, EndRequest
from kwok import images
from kwok.burst import images as burst_images
from kwok.burst.node import BurstNode, why_no_burst_node
from kwok.cgroups import trees
from kwok.images import oci
from kwok.real_node.requirements import SEARCH_PATH
from tests.burst_plane.agent.driver import Driver, ask, found

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

MIB = 1 << 20
SPEC = InstanceSpec(image=burst_images.PYTHON, memory_bytes=96 * MIB, cpu_millis=500)
STATIC = InstanceSpec(
    image=images.reference("function-server"), env=(("SERVICE_TIME_MS", "0"),), memory_bytes=64 * MIB
)
SETTINGS = {"cpu_millis": 10_000, "memory_mib": 2048, "lost_after_s": 8.0, "networks": 2}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BurstNode]:
    if reason := why_no_burst_node():
        pytest.skip(f"no node for instances: {reason}")
    archives = [burst_images.python(), images.build("function-server")]
    # Few addresses, so that they are used again.
    subnet = {"subnet": "10.251.251.0/28"}
    with BurstNode(tmp_path_factory.mktemp("node"), archives, **SETTINGS, **subnet) as node:
        yield node


Act = Callable[[Driver], Awaitable[None]]


def acting(node: BurstNode, act: Act) -> None:
    async def run() -> None:
        async with Driver(node) as driver:
            await act(driver)

    asyncio.run(run())


@pytest.mark.parametrize("uid", [0, 1000])
def test_an_instance_cannot_leave_its_frame(node: BurstNode, uid: int) -> None:
    """Also as root with all that a plain container has."""
    plain = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_MKNOD", "CAP_SETUID", "CAP_SYS_CHROOT")
    security = Security(uid=uid, gid=uid, capabilities=plain if uid == 0 else ())
    spec = msgspec.structs.replace(SPEC, security=security)
    calls = {  # numbers of x86_64
        "unshare a user namespace": "272/268435456",
        "mount": "165",
        "setns": "308",
        "ptrace": "101/16/1",
        "bpf": "321",
        "keyctl": "250",
        "io_uring_setup": "425/1",
        "perf_event_open": "298",
        "a socket to the hypervisor": "41/40/1",
        "a raw socket": "41/2/3/1",
        "a packet socket": "41/17/3",
        "the host's name": "170",
    }

    async def act(driver: Driver) -> None:
        function = await driver.prepared(f"leaves-{uid}", spec, created=1)
        started = await driver.start(function, spec)
        for what, numbers in calls.items():
            assert await ask(started, f"syscall/{numbers}") == "EPERM", what
        assert await ask(started, "device") == ("EACCES" if uid == 0 else "EPERM")  # nodev; no right to
        for path in ("proc/sysrq-trigger", "proc/sys/kernel/core_pattern", "sys/kernel/uevent_helper"):
            assert (await ask(started, f"try/{path}")).startswith("no:"), path
        assert (await ask(started, "status"))["NoNewPrivs"] == "1"
        await driver.end(started)

    acting(node, act)


def test_addresses_that_are_used_again_are_reached(node: BurstNode) -> None:
    """More instances than the network has addresses: the node must not ask the ones before."""

    async def act(driver: Driver) -> None:
        function = await driver.prepared("again", STATIC, created=1)
        addresses = []
        for number in range(20):
            started = await driver.start(function, STATIC)
            addresses.append(started.address)
            await driver.end(started)
            await driver.gone(started)
            await driver.until(lambda state: found(state, function).created >= 1)
            assert number or addresses
        assert len(set(addresses)) < len(addresses)

    acting(node, act)


def test_the_end_of_a_request_whose_answer_never_came(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("unanswered", SPEC, created=1)
        started = await driver.start(function, SPEC, "request")
        message = EndRequest(placement=driver.name, requests=("request", "another"))
        await driver.placement.call("End", message, EndReply, 10)
        await driver.gone(started)
        assert (await driver.try_start(function, SPEC, "another")).started is None

    acting(node, act)


def test_an_instance_whose_client_left_ends_although_its_end_was_lost(node: BurstNode) -> None:
    async def alive(driver: Driver) -> None:
        while True:
            await driver.end()
            await asyncio.sleep(0.5)

    async def act(driver: Driver) -> None:
        function = await driver.prepared("left", SPEC, created=2)
        left, used = await driver.start(function, SPEC), await driver.start(function, SPEC)
        speaking = asyncio.create_task(alive(driver))
        using = asyncio.create_task(ask(used, "sleep/9"))
        assert await ask(left) == "hello"
        await driver.gone(left)
        assert await using == "slept"  # longer than an instance may be without a connection
        speaking.cancel()
        await driver.end(used)

    acting(node, act)


def test_without_containerd_what_is_ready_starts(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("alone", SPEC, created=1)
        await asyncio.to_thread(node.stop_containerd)
        try:
            started = await driver.start(function, SPEC)
            assert await ask(started) == "hello"
            await driver.end(started)
            other = Function("test", "other")
            spec = msgspec.structs.replace(SPEC, image="localhost/other:1")
            await driver.prepare(Preparation(function=other, spec=spec, created=1))
            await driver.until(lambda state: "containerd" in found(state, other).error)
        finally:
            await asyncio.to_thread(node.start_containerd)
        await driver.prepared("alone", STATIC, created=1)

    acting(node, act)


def test_an_image_that_is_removed_meanwhile_is_fetched_anew(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("vanishes", STATIC)
        assert "View" not in node.ctr("snapshots", "ls")
        node.ctr("images", "rm", "--sync", STATIC.image)
        failed = await driver.try_start(function, STATIC)
        assert failed.refused == "failed"
        state = await driver.until(lambda state: bool(found(state, function).error))
        assert "pull" in found(state, function).error
        node.ctr("images", "import", str(images.build("function-server")))
        await driver.prepared("vanishes", STATIC, created=1)
        await driver.end(await driver.start(function, STATIC))
        node.ctr("images", "import", str(burst_images.python()))

    acting(node, act)


def test_images_that_no_function_uses_are_removed(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        await driver.prepared("kept", SPEC)
        ours = Images(node.socket, node.name, "", [], 60.0)
        for spec in (SPEC, STATIC):
            await ours.get(spec.image, "")
        await ours.clean([SPEC.image])  # asked for just now
        assert set(node.ctr("images", "ls", "--quiet").split()) >= {SPEC.image, STATIC.image}
        await ours.clean([SPEC.image], kept_s=0.0)
        assert node.ctr("images", "ls", "--quiet").split() == [SPEC.image]
        await driver.end(await driver.start(Function("test", "kept"), SPEC))
        node.ctr("images", "import", str(images.build("function-server")))

    acting(node, act)


def test_an_image_of_many_layers(node: BurstNode, tmp_path: Path) -> None:
    """Their directories' names together are longer than the page that mount(2) takes."""
    binary = images.build("function-server")
    subprocess.run(["tar", "xf", binary, "-C", tmp_path], check=True)
    (largest,) = sorted((tmp_path / "blobs/sha256").iterdir(), key=lambda file: file.stat().st_size)[-1:]
    layers = [largest]
    for number in range(70):
        content = tmp_path / f"content-{number}"
        content.write_text(str(number))
        layers.append(tmp_path / f"layer-{number}.tar")
        oci.write_layer({f"/many/{number}": content}, layers[-1])
    name = "localhost/many-layers:lab"
    settings = oci.Settings(entrypoint=["/usr/local/bin/function-server"])
    oci.write_image(name, layers, settings, tmp_path / "many.tar")
    node.ctr("images", "import", str(tmp_path / "many.tar"))
    spec = msgspec.structs.replace(STATIC, image=name)

    async def act(driver: Driver) -> None:
        function = await driver.prepared("many", spec, created=1)
        await driver.end(await driver.start(function, spec))

    acting(node, act)


def test_a_full_tmpfs(node: BurstNode) -> None:
    """Nothing can be made, and the state says so; with room again it goes on."""
    directory = node.run_directory / "burst"
    node.stop_agent()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", directory], check=True)
    try:
        node.start_agent()
        filler = directory / "filler"
        size = f"--bytes={4 << 20}"
        with filler.open("wb") as file:
            filled = subprocess.run(["head", size, "/dev/zero"], stdout=file, check=False)
        assert filled.returncode != 0

        async def act(driver: Driver) -> None:
            function = Function("test", "full")
            await driver.prepare(Preparation(function=function, spec=STATIC, created=1))
            state = await driver.until(lambda state: bool(found(state, function).error))
            assert "no space left" in found(state, function).error.lower()
            filler.unlink()
            await driver.prepared("full", STATIC, created=1)
            await driver.end(await driver.start(function, STATIC))

        acting(node, act)
        node.stop_agent()
        left = {path.parent.name for path in directory.glob("*/*")}
        assert left <= {"addresses"}  # host-local's directory, and the last address that it gave
    finally:
        node.stop_agent()
        subprocess.run(["umount", directory], check=True)
        node.start_agent()


def test_in_a_pod_instances_end_with_their_agent(node: BurstNode) -> None:
    """A pod has mount and PID namespaces of its own: no instance outlives the agent, even if none follows."""
    node.stop_agent()
    node.start_agent(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])

    async def act(driver: Driver) -> None:
        function = await driver.prepared("podded", SPEC, created=1, frozen=1)
        frozen, created = await driver.start(function, SPEC), await driver.start(function, SPEC)
        assert [await ask(frozen), await ask(created)] == ["hello", "hello"]
        assert {frozen.origin, created.origin} == {"frozen", "created"}
        node.stop_agent(signal.SIGKILL)
        async with asyncio.timeout(30):
            while processes(node):
                await asyncio.sleep(0.05)

    acting(node, act)
    node.start_agent()
    assert node.instances() == set()


def processes(node: BurstNode) -> list[str]:
    """Of all instances."""
    return [
        pid
        for tree in trees()
        for file in (tree / node.name).glob("*/cgroup.procs")
        for pid in file.read_text().split()
    ]


def test_crun(tmp_path: Path) -> None:
    if reason := why_no_burst_node():
        pytest.skip(f"no node for instances: {reason}")
    if shutil.which("crun", path=SEARCH_PATH) is None:
        pytest.skip("crun is not there")
    archive = images.build("function-server")
    with BurstNode(tmp_path, [archive], **SETTINGS, runtime="crun") as node:

        async def act(driver: Driver) -> None:
            function = Function("test", "crun")
            await driver.prepare(Preparation(function=function, spec=STATIC, created=1, frozen=1))
            state = await driver.until(
                lambda state: bool((of := found(state, function)).error or (of.created and of.frozen))
            )
            error = found(state, function).error
            if "cgroup" in error:
                pytest.skip(f"this crun does not take this machine's cgroups: {error[:100]}")
            assert error == ""
            for origin in ("frozen", "created", "cold"):
                started = await driver.start(function, STATIC)
                assert started.origin in (origin, "created", "frozen")
                await driver.end(started)
                await driver.gone(started)

        acting(node, act)
