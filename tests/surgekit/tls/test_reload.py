"""Rotation served live: the reloading context against real handshakes."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from structlog.testing import capture_logs

from surgekit.tls import CertificateError, ReloadingServerContext, ensure
from tests.surgekit.tls.builders import HOSTS


@pytest.fixture
def tls(tmp_path: Path) -> Path:
    ensure(tmp_path, HOSTS, ["me"], datetime.now(UTC))
    return tmp_path


def server_context(tls: Path) -> ReloadingServerContext:
    return ReloadingServerContext(tls / "tls.crt", tls / "tls.key", tls / "ca.crt")


def client_context(tls: Path, name: str | None = "me") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls / "ca.crt")
    if name:
        context.load_cert_chain(tls / f"{name}.crt", tls / f"{name}.key")
    return context


def new_ca(tls: Path) -> None:
    """As after an emergency: the CA is gone, so are all its certificates."""
    (tls / "ca.crt").unlink()
    ensure(tls, HOSTS, ["me"], datetime.now(UTC))


class Connection:
    """One open connection to the echo server below: what both sides know of each other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.served = int(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"], 16)

    async def seen_as(self) -> str:
        """The common name the server verified; '-' without a certificate."""
        self._writer.write(b"who am I\n")
        answer = await self._reader.readline()
        if not answer:
            raise ConnectionResetError("the server hung up")
        return answer.decode().strip()

    def close(self) -> None:
        self._writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    peer = writer.get_extra_info("peercert")
    name = dict(pair for rdn in peer["subject"] for pair in rdn)["commonName"] if peer else "-"
    while await reader.readline():
        writer.write(f"{name}\n".encode())
    writer.close()


Scenario = Callable[[Callable[[ssl.SSLContext], Awaitable[Connection]]], Awaitable[None]]


def play(reloading: ReloadingServerContext, scenario: Scenario) -> None:
    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=reloading.context)
        port = server.sockets[0].getsockname()[1]
        opened: list[Connection] = []

        async def connect(context: ssl.SSLContext) -> Connection:
            streams = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="127.0.0.1"
            )
            opened.append(Connection(*streams))
            return opened[-1]

        try:
            await scenario(connect)
        finally:
            for connection in opened:
                connection.close()
            server.close()
            await asyncio.sleep(0.05)  # the handlers see the end of their streams

    asyncio.run(main())


def serial(certificate: Path) -> int:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number


class TestReloading:
    def test_rotation_reaches_new_connections_and_leaves_old_ones(self, tls: Path) -> None:
        async def scenario(connect: Callable[[ssl.SSLContext], Awaitable[Connection]]) -> None:
            before = await connect(client_context(tls))
            assert await before.seen_as() == "me"
            (tls / "tls.crt").unlink()
            ensure(tls, HOSTS, [], datetime.now(UTC))
            now = await connect(client_context(tls))
            assert (await before.seen_as(), await now.seen_as()) == ("me", "me")
            assert before.served != now.served == serial(tls / "tls.crt")

        play(server_context(tls), scenario)

    def test_a_client_of_a_ca_no_longer_trusted_is_refused(self, tls: Path) -> None:
        async def scenario(connect: Callable[[ssl.SSLContext], Awaitable[Connection]]) -> None:
            old = client_context(tls)
            assert await (await connect(old)).seen_as() == "me"
            new_ca(tls)
            old.load_verify_locations(tls / "ca.crt")  # it may trust the server; the server must not trust it
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await (await connect(old)).seen_as()
            assert await (await connect(client_context(tls))).seen_as() == "me"

        play(server_context(tls), scenario)

    def test_a_client_without_a_certificate_connects_before_and_after(self, tls: Path) -> None:
        async def scenario(connect: Callable[[ssl.SSLContext], Awaitable[Connection]]) -> None:
            assert await (await connect(client_context(tls, None))).seen_as() == "-"
            new_ca(tls)
            assert await (await connect(client_context(tls, None))).seen_as() == "-"

        play(server_context(tls), scenario)

    @pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt"])
    @pytest.mark.parametrize("how", ["garbage", "empty", "missing"])
    def test_a_faulty_file_keeps_the_old_and_says_so_once(self, tls: Path, broken: str, how: str) -> None:
        context, good = client_context(tls), (tls / broken).read_bytes()

        async def scenario(connect: Callable[[ssl.SSLContext], Awaitable[Connection]]) -> None:
            match how:
                case "missing":
                    (tls / broken).unlink()
                case "garbage":
                    (tls / broken).write_bytes(good[: len(good) // 2])
                case _:
                    (tls / broken).write_bytes(b"")
            with capture_logs() as logs:
                for _ in range(3):
                    assert await (await connect(context)).seen_as() == "me"
            assert [line["log_level"] for line in logs] == ["error"]
            (tls / broken).write_bytes(good)
            with capture_logs() as logs:
                assert await (await connect(context)).seen_as() == "me"
            assert [line["event"] for line in logs] == ["certificates reloaded"]

        play(server_context(tls), scenario)

    def test_the_symlink_swap_of_a_mounted_secret_is_seen(self, tls: Path) -> None:
        """kubelet renames `..data` to point at a new directory; the mounted paths stay the same."""
        mount = tls / "mount"
        for generation in ("1", "2"):
            ensure(mount / generation, HOSTS, ["me"], datetime.now(UTC))
        (mount / "..data").symlink_to("1")
        for name in ("tls.crt", "tls.key", "ca.crt", "me.crt", "me.key"):
            (mount / name).symlink_to(f"..data/{name}")

        async def scenario(connect: Callable[[ssl.SSLContext], Awaitable[Connection]]) -> None:
            assert await (await connect(client_context(mount))).seen_as() == "me"
            (mount / "..tmp").symlink_to("2")
            os.replace(mount / "..tmp", mount / "..data")
            connection = await connect(client_context(mount))
            assert connection.served == serial(mount / "2" / "tls.crt")

        play(server_context(mount), scenario)


@contextmanager
def socket_server(reloading: ReloadingServerContext) -> Iterator[int]:
    """A server on plain sockets, a thread a connection: answers with the name it verified."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(raw: socket.socket) -> None:
            try:
                with reloading.context.wrap_socket(raw, server_side=True) as connection:
                    connection.recv(1)
                    connection.sendall(b"-" if not connection.getpeercert() else b"verified")
            except OSError:
                raw.close()

        def accept() -> None:
            while True:
                try:
                    raw, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(raw,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def ask(port: int, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession | None:
    """One exchange in which the server must have verified a certificate; the session to offer again."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=5)
    with context.wrap_socket(raw, server_hostname="localhost", session=session) as connection:
        connection.sendall(b"x")
        if connection.recv(100) != b"verified":
            raise ConnectionResetError("the server did not take the certificate")
        assert not connection.session_reused
        return connection.session


def test_tls_1_2_is_refused(tls: Path) -> None:
    """It resumes sessions of connections that are still open, whatever has become of their CA."""
    context = client_context(tls)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket_server(server_context(tls)) as port, pytest.raises((ssl.SSLError, ConnectionError)):
        ask(port, context)


def test_a_session_ticket_does_not_outlive_the_trust_in_its_ca(tls: Path) -> None:
    """With tickets on, OpenSSL resumes past the callback and never looks at the certificate again."""
    context = client_context(tls)
    with socket_server(server_context(tls)) as port:
        session = ask(port, context, ask(port, context))
        new_ca(tls)
        context.load_verify_locations(tls / "ca.crt")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(port, context, session)


def test_a_server_certificate_does_not_open_the_door_as_client(tls: Path) -> None:
    with socket_server(server_context(tls)) as port, pytest.raises((ssl.SSLError, ConnectionError)):
        ask(port, client_context(tls, "tls"))


def test_handshakes_from_many_threads_while_files_change(tls: Path) -> None:
    failures: list[Exception] = []
    context = client_context(tls)

    def ask_often(port: int) -> None:
        for _ in range(10):
            try:
                ask(port, context)
            except Exception as error:
                failures.append(error)

    with socket_server(server_context(tls)) as port:
        threads = [threading.Thread(target=ask_often, args=(port,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            (tls / "tls.crt").unlink()
            ensure(tls, HOSTS, [], datetime.now(UTC))
        for thread in threads:
            thread.join()
    assert failures == []


def test_faulty_files_at_start_are_an_error_that_names_them(tls: Path) -> None:
    (tls / "tls.key").write_text("nonsense")
    with pytest.raises(CertificateError, match=r"tls\.key"):
        server_context(tls)


def test_the_expiry_served_is_known(tls: Path) -> None:
    left = server_context(tls).not_after - datetime.now(UTC)
    assert timedelta(days=364) < left <= timedelta(days=365)
