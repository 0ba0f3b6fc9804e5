"""The node agent with runc and containerd: what instances may do, and what becomes of them."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import grpc
import msgspec
import pytest

from burst_plane.instance.oci_spec import CAPABILITIES
from burst_plane.model import Function, InstanceSpec, Preparation, Security
from burst_plane.wire.messages import PULSELET, PrepareReply, PrepareRequest, StartReply, StartRequest
from kwok.burst import images
from kwok.burst.node import PLACEMENT, SERVER_NAME, BurstNode, why_no_burst_node
from surgekit.wire.client import WireError
from tests.burst_plane.agent.driver import Driver, ask, found

pytestmark = [pytest.mark.lab, pytest.mark.real_node]

MIB = 1 << 20
SPEC = InstanceSpec(image=images.PYTHON, memory_bytes=96 * MIB, cpu_millis=500)
OUTSIDE = "198.51.100.2"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BurstNode]:
    if reason := why_no_burst_node():
        pytest.skip(f"no node for instances: {reason}")
    archives = [images.python()]
    directory = tmp_path_factory.mktemp("node")
    settings = {
        "cpu_millis": 10_000, "memory_mib": 2048, "lost_after_s": 2.0, "log_mib": 2, "log_kib_s": 512,
        "allowed_images": ["localhost"], "networks": 2,
    }  # fmt: skip
    with BurstNode(directory, archives, **settings) as node:
        yield node


Act = Callable[[Driver], Awaitable[None]]


def acting(node: BurstNode, act: Act) -> None:
    async def run() -> None:
        async with Driver(node) as driver:
            await act(driver)

    asyncio.run(run())


def varied(**changes: object) -> InstanceSpec:
    return msgspec.structs.replace(SPEC, **changes)


def test_a_start_takes_what_is_readiest_and_the_place_is_filled_again(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("ready", SPEC, created=1, frozen=1)
        frozen, created = await driver.start(function, SPEC), await driver.start(function, SPEC)
        cold = await driver.start(function, SPEC)
        assert [frozen.origin, created.origin] == ["frozen", "created"]
        assert cold.origin in ("cold", "created", "frozen")  # refilled meanwhile, or not
        assert len({each.address for each in (frozen, created, cold)}) == 3
        assert [await ask(each) for each in (frozen, created, cold)] == ["hello"] * 3
        await driver.end(frozen, created, cold)
        for each in (frozen, created, cold):
            await driver.gone(each)
        state = await driver.until(lambda state: found(state, function).frozen >= 1)
        assert state.cpu_millis_free == state.cpu_millis

    acting(node, act)


def test_an_instance_is_confined(node: BurstNode) -> None:
    spec = varied(
        env=(("GREETING", "hi"),), args=("one", "two"), working_directory="/usr",
        security=Security(uid=1234, gid=4321, read_only_root=True), scratch_bytes=16 * MIB,
    )  # fmt: skip

    async def act(driver: Driver) -> None:
        function = await driver.prepared("confined", spec, created=1)
        started = await driver.start(function, spec)
        status = await ask(started, "status")
        assert status["Uid"].split()[0] == "1234"
        assert status["Gid"].split()[0] == "4321"
        assert {status[f"Cap{kind}"].strip("0") for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {""}
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
        assert status["environment"]["GREETING"] == "hi"
        assert (status["directory"], status["arguments"]) == ("/usr", ["one", "two"])
        assert (await ask(started, "try/function.py")).startswith("no: [Errno 30]")
        assert (await ask(started, "try/etc/resolv.conf")).startswith("no: [Errno 30]")
        assert (await ask(started, "try/proc/sys/kernel/hostname")).startswith("no:")
        # Its scratch is as large as the spec says, whatever the node has.
        assert (
            await ask(started, "write/64") == [15, "[Errno 28] No space left on device"]
            or (await ask(started, "write/64"))[0] <= 16
        )
        await driver.end(started)

    acting(node, act)


def test_a_start_that_is_sent_twice_starts_one_instance(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("twice", SPEC, created=2)
        both = await asyncio.gather(
            driver.start(function, SPEC, "same"), driver.start(function, SPEC, "same")
        )
        assert both[0] == both[1]
        assert (await driver.start(function, SPEC, "same")) == both[0]
        assert (await driver.start(function, SPEC, "other")).instance != both[0].instance
        await driver.end(both[0])
        await driver.gone(both[0])
        again = await driver.try_start(function, SPEC, "same")
        assert (again.started, again.retryable) == (None, False)

    acting(node, act)


def test_ten_starts_at_once(node: BurstNode) -> None:
    spec = varied(memory_bytes=48 * MIB, cpu_millis=200)

    async def act(driver: Driver) -> None:
        function = await driver.prepared("ten", spec, frozen=10)
        started = await asyncio.gather(*(driver.start(function, spec) for _ in range(10)))
        assert {each.origin for each in started} == {"frozen"}
        assert await asyncio.gather(*(ask(each) for each in started)) == ["hello"] * 10
        await driver.end(*started)

    acting(node, act)


def test_what_ends_an_instance(node: BurstNode) -> None:
    """Its own exit, its longest time, and the loss of its placement."""
    brief = varied(longest_s=1.0)

    async def act(driver: Driver) -> None:
        function = await driver.prepared("ends", brief, created=3)
        exits, hangs = await driver.start(function, brief), await driver.start(function, brief)
        with pytest.raises(OSError):  # noqa: PT011  (the connection ends, one way or another)
            await ask(exits, "exit/7")
        with pytest.raises(OSError):  # noqa: PT011
            await ask(hangs, "sleep/3600")
        await driver.gone(exits)
        await driver.gone(hangs)
        function = await driver.prepared("lost", SPEC, created=1)
        lost = await driver.start(function, SPEC)
        assert await ask(lost) == "hello"
        await driver.gone(lost)  # no word from this placement any more: only Watch, which has no name

    acting(node, act)


def test_a_placement_ends_only_its_own_instances(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("owned", SPEC, created=1)
        started = await driver.start(function, SPEC)
        async with Driver(node) as other:
            await other.end(started)
        assert await ask(started) == "hello"
        await driver.end(started)
        await driver.gone(started)

    acting(node, act)


def test_a_function_that_crashes_at_its_start(node: BurstNode) -> None:
    spec = varied(env=(("EXIT_CODE", "3"),))
    function = Function("test", "crashes")

    async def act(driver: Driver) -> None:
        await driver.prepare(Preparation(function=function, spec=spec, created=1, frozen=1))
        state = await driver.until(lambda state: bool(found(state, function).error))
        assert "code 3" in found(state, function).error
        reply = await driver.try_start(function, spec)
        assert (reply.refused, reply.retryable) == ("failed", True)
        assert "code 3" in reply.error

    acting(node, act)


def test_forks_and_memory_hurt_nobody_else(node: BurstNode) -> None:
    small = varied(pids=32, memory_bytes=64 * MIB)

    async def act(driver: Driver) -> None:
        function = await driver.prepared("greedy", small, created=2)
        neighbour, forks = await driver.start(function, small), await driver.start(function, small)
        children, why = await ask(forks, "fork")
        assert children < 32
        assert "temporarily unavailable" in why
        fills = await driver.start(function, small)
        with pytest.raises(OSError):  # noqa: PT011  (killed)
            await ask(fills, "fill/512")
        await driver.gone(fills)
        assert await ask(neighbour) == "hello"
        await driver.end(forks, neighbour)
        await driver.gone(forks)

    acting(node, act)


def test_output_is_logged_and_bounded(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("speaks", SPEC, created=1)
        started = await driver.start(function, SPEC)
        await ask(started, "say/something")
        await until(lambda: any(file.read_text().count("\n") >= 2 for file in node.logs.glob("speaks-*.log")))
        (log,) = node.logs.glob("speaks-burst-*_test_speaks-*.log")
        time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"
        lines = log.read_text()
        assert re.search(rf"^{time} stdout F something$", lines, re.MULTILINE)
        assert re.search(rf"^{time} stderr F SOMETHING$", lines, re.MULTILINE)
        assert re.fullmatch(r"[a-z0-9.-]+_[a-z0-9-]+_.+-[a-f0-9]{64}\.log", log.name)  # what collectors parse
        assert await ask(started, "shout") == "shouting"
        await until(lambda: log.with_name(f"{log.name}.1").exists())
        await driver.end(started)
        await driver.gone(started)
        assert sum(file.stat().st_size for file in node.logs.glob("speaks-*")) < 3 * MIB

    acting(node, act)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.fixture
def outside(node: BurstNode) -> Iterator[str]:
    """The name of a network beyond the node, where something listens on port 80 of OUTSIDE."""
    name = f"{node.name}x"
    commands = [
        f"ip netns add {name}", f"ip link add {name} type veth peer name eth0 netns {name}",
        f"ip address add 198.51.100.1/24 dev {name}", f"ip link set {name} up",
        f"ip -n {name} address add {OUTSIDE}/24 dev eth0", f"ip -n {name} link set eth0 up",
        f"ip -n {name} link set lo up", f"ip -n {name} route add default via 198.51.100.1",
    ]  # fmt: skip
    for command in commands:
        subprocess.run(command.split(), check=True)
    server = subprocess.Popen(
        ["ip", "netns", "exec", name, "python3", "-m", "http.server", "80"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield name
    server.kill()
    server.wait()
    subprocess.run(["ip", "netns", "delete", name], check=True)


def test_the_network_of_an_instance(node: BurstNode, outside: str) -> None:
    """Out, but not to the node, its neighbours or link-local addresses; in, only for gateways."""
    spec = varied(security=Security(uid=0, gid=0, capabilities=tuple(sorted(CAPABILITIES))))

    async def act(driver: Driver) -> None:
        function = await driver.prepared("network", spec, created=2)
        one, other = await driver.start(function, spec), await driver.start(function, spec)
        deadline = asyncio.get_running_loop().time() + 20
        while (said := await ask(one, f"reach/{OUTSIDE}:80")) != "yes":
            assert asyncio.get_running_loop().time() < deadline, said
        gateway = re.sub(r"\d+$", "1", one.address)
        for place in (
            f"{other.address}:{other.port}", f"{gateway}:{node.health_port}", f"198.51.100.1:{node.port}",
            "169.254.169.254:80",
        ):  # fmt: skip
            assert (await ask(one, f"reach/{place}")).startswith("no:"), place
        assert await ask(one, "reach/127.0.0.1:8080") == "yes"
        assert (await ask(one, "packet")).startswith("no: [Errno 1]")
        code = f"import socket; socket.create_connection(('{one.address}', {one.port}), 1)"
        tried = await asyncio.to_thread(
            subprocess.run,
            ["ip", "netns", "exec", outside, "python3", "-c", code],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "timed out" in tried.stderr
        await driver.end(one, other)

    acting(node, act)


def test_an_image_that_is_there_is_not_for_everybody(node: BurstNode) -> None:
    """imagePullPolicy Always (AlwaysPullImages forces it): the registry is asked, and here there is none."""
    spec = varied(always_pull=True)

    async def act(driver: Driver) -> None:
        await driver.prepared("may-use-it", SPEC)
        function = Function("test", "must-ask")
        await driver.prepare(Preparation(function=function, spec=spec))
        said = await driver.until(lambda state: bool(found(state, function).error))
        assert not found(said, function).image_present

    acting(node, act)


@pytest.mark.parametrize(
    ("image", "error"),
    [
        ("localhost/nobody-has-this:lab", "nobody-has-this"),
        ("elsewhere.example/function:1", "allowed_images"),
        ("localhost/../../etc", "not the name of an image"),
        ("--help", "not the name of an image"),
    ],
)
def test_images_that_cannot_be_had(node: BurstNode, image: str, error: str) -> None:
    spec = varied(image=image, pull_auth='{"auths": {"localhost": {"username": "u", "password": "hush"}}}')
    function = Function("test", "missing")

    async def act(driver: Driver) -> None:
        await driver.prepare(Preparation(function=function, spec=spec, created=1))
        state = await driver.until(lambda state: bool(found(state, function).error))
        prepared = found(state, function)
        assert error in prepared.error
        assert not prepared.image_present
        assert (await driver.try_start(function, spec)).refused == "not-prepared"
        assert "hush" not in prepared.error + node.said()

    acting(node, act)


def test_starts_that_are_refused(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("refused", SPEC)
        assert (await driver.try_start(Function("test", "nobody"), SPEC)).refused == "unknown"
        assert (await driver.try_start(function, varied(port=81))).refused == "not-prepared"
        large = varied(cpu_millis=11_000)
        function = await driver.prepared("large", large)
        assert (await driver.try_start(function, large)).refused == "no-budget"
        slow = varied(env=(("IMPORTS_MS", "60000"),))
        function = await driver.prepared("slow", slow, created=1)
        assert (await driver.try_start(function, slow, budget_s=0.3)).refused == "too-late"

    acting(node, act)


def test_an_older_order_does_not_hold(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        await driver.prepared("newer", SPEC)
        old = PrepareRequest(term=0, sequence=1 << 62)
        assert not (await driver.controller.call("Prepare", old, PrepareReply, 10)).accepted
        state = await driver.until(lambda _: True)
        assert [each.function.name for each in state.prepared] == ["newer"]

    acting(node, act)


def test_callers_and_garbage(node: BurstNode) -> None:
    """Only placements may start, and bytes that are no message end one call."""

    async def act(driver: Driver) -> None:
        request = StartRequest(
            request="r", placement="p", function=Function("test", "f"), template="t", budget_s=1
        )
        with pytest.raises(WireError, match="PERMISSION_DENIED"):
            await driver.controller.call("Start", request, StartReply, 10)
        certificates = node.certificates
        key, chain, ca = (
            (certificates / name).read_bytes() for name in (f"{PLACEMENT}.key", f"{PLACEMENT}.crt", "ca.crt")
        )
        options = (("grpc.ssl_target_name_override", SERVER_NAME),)
        credentials = grpc.ssl_channel_credentials(ca, key, chain)
        async with grpc.aio.secure_channel(node.address, credentials, options) as channel:
            for method, data in itertools.product(
                ("Start", "End"), (b"", b"\xc1" * 100, b"\x81\xa7request\xc0")
            ):
                call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
                call = channel.unary_unary(f"/{PULSELET}/{method}")
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await call(data, timeout=10)
                assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT, (method, data)
        function = await driver.prepared("after-garbage", SPEC)
        assert (await driver.try_start(function, SPEC)).started is not None

    acting(node, act)


def test_nothing_is_orphaned_when_the_agent_is_killed(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("orphan", SPEC, created=1, frozen=1)
        started = await driver.start(function, SPEC)
        assert await ask(started) == "hello"
        before = node.instances()
        assert len(before) >= 2
        node.stop_agent(signal.SIGKILL)
        assert node.instances() == before  # they run on without it
        node.start_agent()
        assert not node.instances() & before
        assert not [
            line for line in Path("/proc/mounts").read_text().splitlines() if started.instance in line
        ]
        async with Driver(node) as again:
            function = await again.prepared("orphan", SPEC, created=1)
            assert await ask(await again.start(function, SPEC)) == "hello"

    acting(node, act)


def test_an_agent_that_is_told_to_end_drains(node: BurstNode) -> None:
    async def act(driver: Driver) -> None:
        function = await driver.prepared("drains", SPEC, created=2)
        started = await driver.start(function, SPEC)
        agent = node.agent
        assert agent is not None
        agent.send_signal(signal.SIGTERM)
        await driver.until(lambda state: state.draining)
        assert (await driver.try_start(function, SPEC)).refused == "draining"
        assert await ask(started) == "hello"
        await driver.end(started)
        await asyncio.to_thread(agent.wait, 60)
        assert node.instances() == set()
        assert not list((node.run_directory / "burst/namespaces").iterdir())
        node.stop_agent()

    acting(node, act)
    node.start_agent()


def test_without_a_budget_nothing_starts(node: BurstNode) -> None:
    node.stop_agent()
    node.start_agent(cpu_millis=0, memory_mib=0, share=0.0)

    async def act(driver: Driver) -> None:
        function = Function("test", "poor")
        await driver.prepare(Preparation(function=function, spec=SPEC, created=1, frozen=1))
        state = await driver.until(lambda state: found(state, function).image_present)
        assert (state.cpu_millis, state.memory_bytes) == (0, 0)
        assert (await driver.try_start(function, SPEC)).refused == "no-budget"

    acting(node, act)
