"""The agent's end of the stream, against a real gRPC server with mutual TLS."""

from __future__ import annotations

import select
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from limit_allocator.wire.link import Link
from limit_allocator.wire.messages import Found, Hello, Orders, Report, table
from tests.limit_allocator.agent.controller_server import NAME, ControllerServer, certificates
from tests.limit_allocator.agent.controller_side import columns

HELLO = Hello(node="n", boot_id="b", start=1, term=0)
ORDERS = Orders(term=7, start=1)


@pytest.fixture
def tls(tmp_path: Path) -> tuple[Path, Path]:
    return certificates(tmp_path / "tls")


@pytest.fixture
def server(tls: tuple[Path, Path]) -> Iterator[ControllerServer]:
    server = ControllerServer(tls[0])
    yield server
    server.stop()


@pytest.fixture
def links() -> Iterator[list[Link]]:
    links: list[Link] = []
    yield links
    for link in links:
        link.stop()


def linked(links: list[Link], port: int, directory: Path, name: str = NAME) -> Link:
    link = Link(f"localhost:{port}", name, directory)
    link.start(lambda: HELLO)
    links.append(link)
    return link


def taken(link: Link) -> list[Orders]:
    """Wait for orders."""
    assert select.select([link], [], [], 30)[0], "no orders"
    return list(link.take())


def report(number: int, **what: object) -> Report:
    return Report(number=number, term=7, at_us=number, room_bytes=1, **what)  # type: ignore[arg-type]


def test_orders_arrive_and_reports_are_sent(
    server: ControllerServer, tls: tuple[Path, Path], links: list[Link]
) -> None:
    link = linked(links, server.port, tls[1])
    assert link.stream == 0
    server.orders.put(ORDERS)
    assert taken(link) == [ORDERS]
    assert server.hellos.get(timeout=20) == HELLO
    assert link.stream > 0
    link.send(report(1), link.stream)
    assert server.next_report() == report(1)
    server.orders.put(ORDERS)
    assert taken(link) == [ORDERS]


def test_a_report_for_an_earlier_stream_is_dropped(
    server: ControllerServer, tls: tuple[Path, Path], links: list[Link]
) -> None:
    link = linked(links, server.port, tls[1])
    server.orders.put(ORDERS)
    taken(link)
    before = link.stream
    server.orders.put(None)
    server.hellos.get(timeout=20)
    server.hellos.get(timeout=20)  # it came again by itself
    server.orders.put(ORDERS)
    while link.stream in (0, before):
        taken(link)
    link.send(report(1), before)
    link.send(report(2), link.stream)
    assert server.next_report().number == 2


def test_each_stream_begins_with_the_token_as_the_kubelet_has_renewed_it(
    server: ControllerServer, tls: tuple[Path, Path], links: list[Link], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    link = Link(f"localhost:{server.port}", NAME, tls[1], token)
    links.append(link)
    link.start(lambda: HELLO)
    assert not select.select([link], [], [], 0.5)[0], "no stream without the file"
    assert server.tokens == []
    for content in ("first", "second\n"):
        token.write_text(content)
        server.orders.put(ORDERS)
        taken(link)
        server.orders.put(None)
    assert [*dict.fromkeys(server.tokens)][:2] == ["first", "second"]


def test_only_the_leader_accepts(
    tls: tuple[Path, Path], links: list[Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = ControllerServer(tls[0], "127.0.0.2", leads=False)
    leader = ControllerServer(tls[0], "127.0.0.3", follower.port)
    places = [(socket.AF_INET, 1, 6, "", (host, follower.port)) for host in ("127.0.0.2", "127.0.0.3")]
    monkeypatch.setattr("limit_allocator.wire.link.socket.getaddrinfo", lambda *_, **__: places)
    try:
        link = linked(links, follower.port, tls[1])
        leader.orders.put(ORDERS)
        assert taken(link) == [ORDERS]
        assert follower.refused > 0
    finally:
        link.stop()
        for one in (leader, follower):
            one.stop()


@pytest.mark.parametrize("fault", ["name", "no client certificate", "another CA", "nonsense"])
def test_no_stream_without_good_certificates(
    server: ControllerServer, tls: tuple[Path, Path], links: list[Link], tmp_path: Path, fault: str
) -> None:
    """And as soon as they are good there is one: they are read again for every attempt."""
    directory = tmp_path / "agent"
    shutil.copytree(tls[1], directory)
    if fault == "no client certificate":
        (directory / "tls.key").unlink()
    elif fault == "another CA":
        other = certificates(tmp_path / "other")[1]
        for name in ("tls.crt", "tls.key"):
            shutil.copy(other / name, directory / name)
    elif fault == "nonsense":
        (directory / "ca.crt").write_text("nonsense")
    server.orders.put(ORDERS)
    link = linked(links, server.port, directory, "another.name" if fault == "name" else NAME)
    assert not select.select([link], [], [], 1.0)[0]
    assert link.stream == 0
    assert link.alive()
    assert server.hellos.empty()
    if fault != "name":
        shutil.copytree(tls[1], directory, dirs_exist_ok=True)
        assert taken(link) == [ORDERS]


def test_orders_that_cannot_be_read_end_the_stream(
    server: ControllerServer, tls: tuple[Path, Path], links: list[Link]
) -> None:
    link = linked(links, server.port, tls[1])
    server.orders.put(b"\xc1")
    while not select.select([link], [], [], 0.1)[0]:
        server.orders.put(ORDERS)  # one may have gone to the stream that ended
    assert taken(link)[0] == ORDERS


def test_without_a_controller_it_waits_and_stops(tls: tuple[Path, Path], links: list[Link]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken_port:
        port = taken_port.getsockname()[1]
    link = linked(links, port, tls[1])
    link.send(report(1), 0)
    link.send(report(2), 5)
    assert link.alive()
    link.stop()
    assert not link.alive()


def test_a_slow_stream_gets_reports_merged_and_loses_nothing(
    server: ControllerServer, tls: tuple[Path, Path], links: list[Link]
) -> None:
    """However they are merged, every container that was found is told, and the newest account."""
    link = linked(links, server.port, tls[1])
    server.orders.put(ORDERS)
    taken(link)
    for number in range(1, 301):
        found = Found(key=number, pod_uid="p", container_id="c", quota_us=1, memory_bytes=1)
        account = columns([(7, number, 1, number, 0, 0)])
        link.send(report(number, found=(found,), cpu_accounts=account), link.stream)
    keys: set[int] = set()
    newest = 0
    while newest < 300:
        got = server.next_report()
        keys.update(found.key for found in got.found)
        newest = int(table(got.cpu_accounts, ("key", "a", "b", "written", "d", "e"))[3][0])
        assert newest == got.number
    assert keys == set(range(1, 301))
