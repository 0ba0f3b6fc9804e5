"""Server and client against each other, over real TLS."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from surgekit.process.settings import SettingsError
from surgekit.tls import ensure
from surgekit.wire.client import WireClient, WireError
from surgekit.wire.messages import LARGEST_BYTES, MessageError, decode
from surgekit.wire.server import Caller, Method, ServerThread, Unavailable, WireServer

SERVICE = "surgekit.test.Echo"
NAME = "echo.example.svc"


class Ping(msgspec.Struct, frozen=True):
    number: int


class Pong(msgspec.Struct, frozen=True):
    number: int
    caller: str = ""
    address: str = ""


async def unary(request: Ping, caller: Caller) -> Pong:
    if request.number < 0:
        raise Unavailable("not the leader")
    return Pong(request.number, caller.name, caller.address)


async def stream(request: Ping, caller: Caller) -> AsyncIterator[Pong]:
    for number in range(request.number):
        yield Pong(number, caller.name)


async def conversation(requests: AsyncIterator[Ping], caller: Caller) -> AsyncIterator[Pong]:
    async for request in requests:
        yield Pong(request.number * 2, caller.name)


METHODS = {
    "One": Method.unary(Ping, frozenset({"alice"}), unary),
    "Many": Method.stream(Ping, frozenset({"alice", "bob"}), stream),
    "Talk": Method.conversation(Ping, frozenset({"bob"}), conversation),
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tls")
    ensure(directory, [NAME], ["alice", "bob"], datetime.now(UTC))
    return directory


def served(directory: Path | None, act: Callable[[int], Awaitable[None]]) -> WireServer:
    """Run `act` with the port of a server; both in one loop."""
    server = WireServer("127.0.0.1:0", directory, SERVICE, METHODS)

    async def run() -> None:
        await server.start()
        try:
            await act(server.port)
        finally:
            await server.stop(0.1)

    asyncio.run(run())
    return server


def test_messages_go_both_ways_and_handlers_know_who_calls(certificates: Path) -> None:
    async def act(port: int) -> None:
        alice = WireClient(f"127.0.0.1:{port}", SERVICE, certificates, NAME, "alice")
        bob = WireClient(f"127.0.0.1:{port}", SERVICE, certificates, NAME, "bob")

        async def pings() -> AsyncIterator[Ping]:
            yield Ping(1)
            yield Ping(2)

        try:
            assert await alice.call("One", Ping(7), Pong, 10) == Pong(7, "alice", "127.0.0.1")
            assert [each async for each in bob.stream("Many", Ping(3), Pong)] == [
                Pong(n, "bob") for n in range(3)
            ]
            assert [each async for each in bob.converse("Talk", pings(), Pong)] == [
                Pong(2, "bob"), Pong(4, "bob"),
            ]  # fmt: skip
        finally:
            await alice.close()
            await bob.close()

    served(certificates, act)


def test_each_method_has_its_own_callers(certificates: Path) -> None:
    async def act(port: int) -> None:
        bob = WireClient(f"127.0.0.1:{port}", SERVICE, certificates, NAME, "bob")
        try:
            with pytest.raises(WireError, match="PERMISSION_DENIED") as refused:
                await bob.call("One", Ping(7), Pong, 10)
            assert not refused.value.sent
        finally:
            await bob.close()

    assert served(certificates, act).refused_total == 1


def test_a_certificate_of_another_authority_connects_nowhere(certificates: Path, tmp_path: Path) -> None:
    ensure(tmp_path, [], ["alice"], datetime.now(UTC))
    shutil.copy(certificates / "ca.crt", tmp_path / "ca.crt")  # it trusts the server, which does not trust it

    async def act(port: int) -> None:
        stranger = WireClient(f"127.0.0.1:{port}", SERVICE, tmp_path, NAME, "alice")
        try:
            with pytest.raises(WireError, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
                await stranger.call("One", Ping(7), Pong, 2)
        finally:
            await stranger.close()

    served(certificates, act)


@pytest.mark.parametrize(
    ("number", "status", "sent"),
    [(-1, "UNAVAILABLE", True), ("seven", "INVALID_ARGUMENT", False)],
)
def test_what_cannot_be_answered_ends_that_call_only(
    certificates: Path, number: int, status: str, sent: bool
) -> None:
    async def act(port: int) -> None:
        alice = WireClient(f"127.0.0.1:{port}", SERVICE, certificates, NAME, "alice")
        try:
            with pytest.raises(WireError) as failed:
                await alice.call("One", Ping(number), Pong, 10)
            assert (failed.value.status, failed.value.sent) == (status, sent)
            assert (await alice.call("One", Ping(1), Pong, 10)).number == 1
        finally:
            await alice.close()

    served(certificates, act)


def test_a_call_that_was_never_sent_says_so(certificates: Path) -> None:
    async def act(port: int) -> None:
        nobody = WireClient("127.0.0.1:1", SERVICE, certificates, NAME, "alice")
        try:
            with pytest.raises(WireError, match="UNAVAILABLE") as failed:
                await nobody.call("One", Ping(1), Pong, 10)
            assert not failed.value.sent
        finally:
            await nobody.close()

    served(certificates, act)


def test_a_server_in_a_thread_serves(certificates: Path) -> None:
    server = WireServer("127.0.0.1:0", certificates, SERVICE, METHODS)
    thread = ServerThread(server)
    thread.start()

    async def ask() -> Pong:
        alice = WireClient(f"127.0.0.1:{server.port}", SERVICE, certificates, NAME, "alice")
        try:
            return await alice.call("One", Ping(7), Pong, 10)
        finally:
            await alice.close()

    try:
        assert asyncio.run(ask()).number == 7
    finally:
        thread.stop()
    assert not thread.alive()


def test_a_port_that_cannot_be_served_is_a_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be used"):
        WireServer("127.0.0.1:0", tmp_path, SERVICE, METHODS)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x81\xa6number\xa1x", b"0" * (LARGEST_BYTES + 1)])
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(MessageError):
        decode(data, Ping)
