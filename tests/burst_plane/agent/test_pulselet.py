"""The life of instances with a workshop that only pretends, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.model import Function, InstanceSpec, Preparation
from burst_plane.wire.messages import PrepareRequest, StartReply, WatchRequest
from surgekit.wire.server import Caller
from tests.burst_plane.agent.fakes import MIB, FakeNode
from tests.burst_plane.agent.virtual_time import run

F, G = Function("test", "f"), Function("test", "g")
SPEC = InstanceSpec(image="image", cpu_millis=300, memory_bytes=100 * MIB, longest_s=20.0)
LARGE = InstanceSpec(image="image", cpu_millis=900, memory_bytes=400 * MIB, longest_s=20.0)
SPECS = {F: SPEC, G: LARGE}

Act = Callable[[FakeNode], Awaitable[None]]


def acting(act: Act, **settings: int) -> None:
    async def play() -> None:
        node = FakeNode(**settings)
        async with node:
            await act(node)
        nothing_is_left(node)

    run(play())


def nothing_is_left(node: FakeNode) -> None:
    assert node.world.containers == {}
    assert node.share.free == node.share.total
    assert len(node.world.networks) == node.networks.ready  # the process removes these at its end


async def ready(node: FakeNode, function: Function = F, created: int = 0, frozen: int = 0) -> None:
    spec = SPECS[function]
    await node.prepare(Preparation(function=function, spec=spec, created=created, frozen=frozen))
    await node.until(
        lambda: any(
            (each.image_present, each.created, each.frozen) == (True, created, frozen)
            for each in node.stock.prepared()
        )
    )


async def started(node: FakeNode, request: str = "r", function: Function = F) -> str:
    reply = await node.start(function, SPECS[function], request)
    assert reply.started is not None, reply
    return reply.started.instance


def test_an_end_that_names_the_request_ends_its_instance() -> None:
    async def act(node: FakeNode) -> None:
        await ready(node, created=1)
        await started(node)
        await node.end(requests=("r",))
        await node.until(lambda: node.pulselet.running == 0)
        assert (await node.start(F, SPEC, "r")).started is None

    acting(act)


def test_a_start_that_arrives_after_its_end_starts_nothing() -> None:
    async def act(node: FakeNode) -> None:
        await ready(node, created=1)
        await node.end(requests=("late",))
        reply = await node.start(F, SPEC, "late")
        assert (reply.started, reply.refused) == (None, "failed")
        assert node.pulselet.running == 0
        # Another placement's request has that name by chance.
        assert (await node.start(F, SPEC, "late", placement="q")).started is not None

    acting(act)


def test_an_end_during_a_start_ends_it_in_every_phase() -> None:
    """Its container is being made, started or thawed, whenever the End comes."""

    async def act(node: FakeNode) -> None:
        for number in range(60):
            await ready(node, created=number % 2)
            starting = asyncio.create_task(node.start(F, SPEC, f"r{number}"))
            await asyncio.sleep(node.world.chance.choice((0, 0, 0.001, 0.01, 0.06, 0.3)))
            await node.end(requests=(f"r{number}",))
            reply = await starting
            if reply.started is not None:  # it was told before
                assert (await node.start(F, SPEC, f"r{number}")).started is None
            await node.until(lambda: node.pulselet.running == 0)
            node.check()

    acting(act)


def test_one_request_starts_one_instance_whoever_repeats_it() -> None:
    async def act(node: FakeNode) -> None:
        await ready(node, created=2)
        first, second = await asyncio.gather(started(node), started(node))
        assert first == second == await started(node)
        assert node.pulselet.running == 1

    acting(act)


def test_a_caller_that_left_and_does_not_ask_again() -> None:
    async def act(node: FakeNode) -> None:
        await ready(node, created=1)
        starting = asyncio.create_task(node.start(F, SPEC, "r"))
        await asyncio.sleep(0)
        starting.cancel()
        await node.until(lambda: node.pulselet.running == 0)
        # Nobody was told of it: no code of the function has seen the request.
        reply = await node.start(F, SPEC, "r")
        assert (reply.started, reply.retryable) == (None, True)

    acting(act)


def test_starts_at_once_share_what_there_is() -> None:
    """Budget for 6 of 10: the others are refused at once, and cost no prepared container."""

    async def act(node: FakeNode) -> None:
        await ready(node, created=10)
        replies = await asyncio.gather(*(node.start(F, SPEC, f"r{n}") for n in range(10)))
        assert [reply.refused for reply in replies].count("no-budget") == 4
        assert sum(reply.started is not None for reply in replies) == 6
        assert sum(each.created for each in node.stock.prepared()) >= 4
        node.check()

    acting(act)


def test_containers_of_many_functions_leave_memory_to_start_one() -> None:
    async def act(node: FakeNode) -> None:
        many = [Preparation(function=Function("many", f"f{n}"), spec=SPEC, created=10) for n in range(20)]
        await node.prepare(*many)
        await node.until(lambda: sum(each.created for each in node.stock.prepared()) == 256 // 8)
        for n in range(6):
            assert (await node.start(many[n].function, SPEC, f"r{n}")).started
        node.check()

    acting(act)


def test_frozen_containers_of_others_make_room() -> None:
    async def act(node: FakeNode) -> None:
        await node.prepare(
            Preparation(function=F, spec=SPEC, frozen=4), Preparation(function=G, spec=LARGE, created=1)
        )
        await node.until(
            lambda: [(each.created, each.frozen) for each in node.stock.prepared()] == [(0, 4), (1, 0)]
        )
        await started(node, "a", G)
        await started(node, "b", G)
        assert node.stock.given_up.total() >= 1
        node.check()

    acting(act)


def test_a_hopeless_start_takes_nothing_from_others() -> None:
    enormous = msgspec.structs.replace(SPEC, memory_bytes=2048 * MIB)

    async def act(node: FakeNode) -> None:
        await node.prepare(
            Preparation(function=F, spec=SPEC, frozen=4), Preparation(function=G, spec=enormous, created=1)
        )
        await node.until(lambda: [e.frozen + e.created for e in node.stock.prepared()] == [4, 1])
        assert (await node.start(G, enormous, "r")).refused == "no-budget"
        assert [e.frozen + e.created for e in node.stock.prepared()] == [4, 1]

    acting(act)


def test_a_function_is_forgotten_while_it_starts() -> None:
    async def act(node: FakeNode) -> None:
        for number in range(20):
            await ready(node, created=number % 2)
            starting = asyncio.create_task(node.start(F, SPEC, f"r{number}"))
            await asyncio.sleep(node.world.chance.choice((0, 0.001, 0.06)))
            await node.prepare()
            reply = await starting
            assert reply.started is not None
            await node.end(reply.started.instance)
            await node.until(lambda: node.pulselet.running == 0)

    acting(act)


def test_what_ends_an_instance_that_nobody_ends() -> None:
    async def act(node: FakeNode) -> None:
        await ready(node, created=4)
        node.world.connected = False  # the End was lost
        await started(node, "unused")
        await node.until(lambda: node.pulselet.running == 0, within_s=7)
        node.world.connected = True
        await started(node, "lasts")
        await node.until(lambda: node.pulselet.running == 0, within_s=SPEC.longest_s + 1)
        await started(node, "lost")
        await node.until(lambda: node.pulselet.running == 0, within_s=7, alive="another")
        await started(node, "dies")
        next(iter(node.world.running.values())).process.kill()
        await node.until(lambda: node.pulselet.running == 0, within_s=2)
        ended = {"nobody connected", "longest time over", "placement lost", "its process ended"}
        assert node.pulselet.counts.ended.keys() == ended

    acting(act)


def test_draining_waits_for_what_is_being_made() -> None:
    async def act(node: FakeNode) -> None:
        await ready(node)
        starting = asyncio.create_task(node.start(F, SPEC, "r"))
        await asyncio.sleep(0)
        draining = asyncio.create_task(node.pulselet.drain(300.0))
        reply = await starting
        assert reply.started is not None
        assert (await node.start(F, SPEC, "other")).refused == "draining"
        assert not draining.done()
        await node.end(reply.started.instance)
        await draining

    acting(act)


def test_endless_starts_do_not_stop_the_background() -> None:
    """A function that never opens its port keeps starts going on; others are still made ready."""

    async def act(node: FakeNode) -> None:
        await node.prepare(Preparation(function=F, spec=SPEC, created=1))
        node.stock.starting += 1
        await node.until(lambda: node.stock.prepared()[0].created == 1)
        node.stock.starting -= 1

    acting(act)


def test_functions_that_hang_keep_no_others_from_being_made_ready() -> None:
    slow = [Preparation(function=Function("slow", f"f{n}"), spec=SPEC, frozen=1) for n in range(20)]

    async def act(node: FakeNode) -> None:
        node.world.hangs = {each.function for each in slow}
        await node.prepare(*slow)
        await node.until(lambda: bool(node.world.running))
        await node.prepare(*slow, Preparation(function=F, spec=SPEC, created=3, frozen=1))
        await node.until(
            lambda: (node.stock.prepared()[-1].created, node.stock.prepared()[-1].frozen) == (3, 1), 15
        )
        node.check()

    acting(act)


def test_a_placement_is_a_gateway_for_as_long_as_it_watches() -> None:
    """The controller watches, too, and is none. An address that is free again may be a tenant's pod's."""
    placement, controller = Caller("placement", "10.0.0.1"), Caller("controller", "10.0.0.2")

    async def act(node: FakeNode) -> None:
        watches = [node.pulselet.watch(WatchRequest(), caller) for caller in (placement, controller)]
        for watch in watches:
            await anext(watch)
        assert node.networks.gateways == ["10.0.0.1"]
        await asyncio.sleep(60)
        assert node.networks.gateways == ["10.0.0.1"]
        for watch in watches:
            await watch.aclose()
        assert node.networks.gateways == ["10.0.0.1"]  # it may only have lost its connection
        await asyncio.sleep(6)
        assert node.networks.gateways == []

    acting(act)


def test_an_older_leader_is_heard_only_when_the_later_one_is_gone() -> None:
    """Terms begin at 0 again when somebody deletes the Lease."""

    async def order(node: FakeNode, term: int) -> bool:
        request = PrepareRequest(term=term, sequence=1)
        return (await node.pulselet.prepare(request, Caller("controller", "10.0.0.2"))).accepted

    async def act(node: FakeNode) -> None:
        assert await order(node, 7)
        assert not await order(node, 3)
        await asyncio.sleep(61)
        assert await order(node, 3)
        assert await order(node, 7)

    acting(act)


OPERATIONS = st.one_of(
    st.tuples(st.just("start"), st.sampled_from([F, G]), st.integers(0, 5)),
    st.tuples(st.just("end"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("die"), st.integers(0, 7)),
    st.tuples(st.just("prepare"), st.sampled_from([F, G]), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.01, 0.1, 1.0, 6.0])),
)


@settings(max_examples=300, deadline=None)
@given(
    operations=st.lists(OPERATIONS, max_size=40),
    seed=st.integers(0, 1 << 16),
    fails=st.sampled_from([0.0, 0.1, 0.5]),
    alive=st.booleans(),
)
def test_whatever_happens_the_share_holds_and_nothing_leaks(
    operations: list[tuple[object, ...]], seed: int, fails: float, alive: bool
) -> None:
    async def play() -> None:
        node = FakeNode(seed, fails)
        starts: dict[int, asyncio.Task[StartReply]] = {}
        over: set[int] = set()  # requests that were ended, and not asked for before that
        async with node:
            for operation in operations:
                match operation:
                    case ("start", Function() as function, int(n)):
                        task = asyncio.create_task(node.start(function, SPECS[function], f"r{n}"))
                        if n in over:
                            assert (await task).started is None
                        starts[n] = task
                    case ("end", int(n), True):
                        await node.end(requests=(f"r{n}",))
                        over.add(n)
                    case ("end", int(n), False):
                        task_or_none = starts.get(n)
                        if task_or_none and task_or_none.done() and not task_or_none.cancelled():
                            reply = task_or_none.result()
                            await node.end(*([reply.started.instance] if reply.started else []))
                    case ("die", int(n)) if node.world.containers:
                        names = sorted(node.world.containers)
                        node.world.containers[names[n % len(names)]].process.kill()
                    case ("prepare", Function() as function, int(created), int(frozen)):
                        other = G if function == F else F
                        orders = [
                            Preparation(
                                function=function, spec=SPECS[function], created=created, frozen=frozen
                            )
                        ]
                        if created % 2:
                            orders.append(Preparation(function=other, spec=SPECS[other], created=1))
                        await node.prepare(*orders)
                    case ("leave", int(n)) if n in starts:
                        starts[n].cancel()
                    case ("wait", float(seconds)):
                        await asyncio.sleep(seconds)
                        if alive:
                            await node.end()
                node.check()
            await asyncio.gather(*starts.values(), return_exceptions=True)
            node.check()
            # No word from the placement: every instance ends.
            await node.until(lambda: node.pulselet.running == 0, alive="")
            node.check()
        nothing_is_left(node)

    run(play())
