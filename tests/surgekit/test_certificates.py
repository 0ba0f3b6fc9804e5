"""Certificates: what is due and when (with a moving clock), how they are kept, and rotation served live."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography import x509
from structlog.testing import capture_logs
from typer.testing import CliRunner

from surgekit.certificates import (
    CertificateError,
    Client,
    ReloadingServerContext,
    Server,
    ensure,
    ensure_secrets,
)
from surgekit.certificates.issue import CA_OVERLAP, Pem, Renewal, renew
from surgekit.cli.certificates import app
from surgekit.kube import ApiError

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOSTS = ["localhost", "127.0.0.1", "surgekit-extender.surgekit-system.svc"]
WANTED: list[Server | Client] = [Server("server", tuple(HOSTS)), Client("client", "kube-scheduler")]


def after(renewal: Renewal, days: float, wanted: list[Server | Client] | None = None) -> Renewal:
    now = NOW + timedelta(days=days)
    return renew(renewal.ca, renewal.leaves, WANTED if wanted is None else wanted, now)


def actions(renewal: Renewal) -> dict[str, str]:
    return {change.name: change.action.value for change in renewal.changes}


def authorities(pem: Pem) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem.certificates)


class TestWhatIsDue:
    def test_everything_is_created_once_and_then_kept(self) -> None:
        first = renew(None, {}, WANTED, NOW)
        assert actions(first) == {"ca": "created", "server": "created", "client": "created"}
        second = after(first, days=1)
        assert actions(second) == {"ca": "kept", "server": "kept", "client": "kept"}
        assert (second.ca, second.leaves) == (first.ca, first.leaves)

    @pytest.mark.parametrize(("days", "expected"), [(240, "kept"), (245, "renewed"), (400, "renewed")])
    def test_a_leaf_is_renewed_when_under_a_third_of_its_year_is_left(self, days: int, expected: str) -> None:
        assert actions(after(renew(None, {}, WANTED, NOW), days))["server"] == expected

    def test_other_hosts_mean_another_certificate(self) -> None:
        moved = after(renew(None, {}, WANTED, NOW), 1, [Server("server", ("elsewhere.svc",)), WANTED[1]])
        assert actions(moved) == {"ca": "kept", "server": "renewed", "client": "kept"}

    def test_a_lost_or_foreign_ca_replaces_every_leaf(self) -> None:
        first = renew(None, {}, WANTED, NOW)
        for ca in (None, Pem(b"garbage", b"garbage"), Pem(first.ca.certificates, b"")):
            again = renew(ca, first.leaves, WANTED, NOW)
            assert {actions(again)["server"], actions(again)["client"]} == {"renewed"}

    @pytest.mark.parametrize("broken", [Pem(b"", b""), Pem(b"-----BEGIN", b"x")])
    def test_unreadable_leaves_are_replaced(self, broken: Pem) -> None:
        first = renew(None, {}, WANTED, NOW)
        assert actions(renew(first.ca, {"server": broken}, WANTED[:1], NOW))["server"] == "renewed"

    def test_a_key_of_another_certificate_is_noticed(self) -> None:
        first = renew(None, {}, WANTED, NOW)
        mixed = Pem(first.leaves["server"].certificates, first.leaves["client"].keys)
        change = renew(first.ca, {"server": mixed}, WANTED[:1], NOW).changes[1]
        assert (change.action.value, change.reason) == (
            "renewed",
            "its key does not belong to its certificate",
        )

    def test_a_new_ca_is_published_before_it_signs(self) -> None:
        """Someone who has only the old bundle, or only the new one, verifies every leaf ever served."""
        state = renew(None, {}, WANTED, NOW)
        (old_ca,) = authorities(state.ca)
        due = 3650 * 2 / 3 + 1
        published = after(state, due)
        assert actions(published)["ca"] == "renewed"
        new_ca, still_trusted = authorities(published.ca)
        assert still_trusted == old_ca
        leaf = x509.load_pem_x509_certificate(published.leaves["server"].certificates)
        leaf.verify_directly_issued_by(old_ca)
        signing = after(published, due + CA_OVERLAP.days + 1)
        assert actions(signing) == {"ca": "kept", "server": "renewed", "client": "renewed"}
        leaf = x509.load_pem_x509_certificate(signing.leaves["server"].certificates)
        leaf.verify_directly_issued_by(new_ca)
        assert len(authorities(signing.ca)) == 2
        assert authorities(after(signing, 3651).ca) == [new_ca]

    def test_a_run_a_month_for_twenty_years_never_serves_anything_expired_or_untrusted(self) -> None:
        state = renew(None, {}, WANTED, NOW)
        read_long_ago = state.ca  # what a scheduler restarted once a fortnight still trusts
        for days in range(14, 20 * 365, 14):
            state, now = after(state, days), NOW + timedelta(days=days)
            for pem in state.leaves.values():
                leaf = x509.load_pem_x509_certificate(pem.certificates)
                assert leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc
                assert leaf.issuer in [ca.subject for ca in authorities(read_long_ago)]
            assert len(authorities(state.ca)) <= 2
            read_long_ago = state.ca

    def test_each_certificate_serves_one_purpose(self) -> None:
        made = renew(None, {}, WANTED, NOW)
        purposes = {}
        for name, pem in made.leaves.items():
            extensions = x509.load_pem_x509_certificate(pem.certificates).extensions
            usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            purposes[name] = [oid._name for oid in usage]
        assert purposes == {"server": ["serverAuth"], "client": ["clientAuth"]}

    @pytest.mark.parametrize("host", ["under_score", "UPPER.case", "", "a b", "-x", "http://x"])
    def test_a_bad_host_is_named(self, host: str) -> None:
        with pytest.raises(CertificateError, match=f"host {host!r}"):
            Server("server", (host,))

    def test_a_private_key_is_not_shown_in_logs(self) -> None:
        assert "PRIVATE KEY" not in repr(renew(None, {}, WANTED, NOW))


class TestFiles:
    def test_keys_are_private_and_a_second_run_touches_nothing(self, tmp_path: Path) -> None:
        directory = tmp_path / "new" / "tls"
        assert [c.action for c in ensure(directory, HOSTS, ["kube-scheduler"], NOW)] == ["created"] * 3
        files = {p.name: p for p in directory.iterdir()}
        assert set(files) == {f"{n}.{e}" for n in ("ca", "tls", "kube-scheduler") for e in ("crt", "key")}
        for name, path in files.items():
            assert stat.S_IMODE(path.stat().st_mode) == (0o600 if name.endswith(".key") else 0o644)
        before = {name: path.stat().st_mtime_ns for name, path in files.items()}
        assert [c.action for c in ensure(directory, HOSTS, ["kube-scheduler"], NOW)] == ["kept"] * 3
        assert {name: path.stat().st_mtime_ns for name, path in files.items()} == before

    @pytest.mark.parametrize("lost", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
    def test_a_run_cut_short_is_put_right(self, tmp_path: Path, lost: str) -> None:
        ensure(tmp_path, HOSTS, [], NOW)
        (tmp_path / lost).unlink()
        ensure(tmp_path, HOSTS, [], NOW)
        assert [c.action for c in ensure(tmp_path, HOSTS, [], NOW)] == ["kept", "kept"]

    @pytest.mark.parametrize("name", ["ca", "tls", "../evil", "", "a/b", ".hidden"])
    def test_a_client_cannot_take_another_files_name(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(CertificateError, match="client name"):
            ensure(tmp_path, HOSTS, [name], NOW)
        assert list(tmp_path.iterdir()) == []

    def test_command_line(self, tmp_path: Path) -> None:
        arguments = ["files", str(tmp_path), "--host", "localhost", "--client", "me", "--json"]
        result = CliRunner().invoke(app, arguments)
        assert [c["action"] for c in orjson.loads(result.stdout)] == ["created"] * 3
        assert CliRunner().invoke(app, ["files", str(tmp_path), "--host", "no_good"]).exit_code == 1


class FakeSecrets:
    """The part of the API server that ensure_secrets uses, with its optimistic locking."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.before_write: Callable[[], None] = lambda: None
        self.writes = 0

    def get(self, path: str) -> dict[str, Any]:
        name = path.rsplit("/", 1)[1]
        if name not in self.stored:
            raise ApiError(404, "NotFound", name)
        return dict(self.stored[name])

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.before_write()
        if body["metadata"]["name"] in self.stored:
            raise ApiError(409, "AlreadyExists", body["metadata"]["name"])
        return self._store(body)

    def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.before_write()
        if self.stored[body["metadata"]["name"]]["metadata"] != body["metadata"]:
            raise ApiError(409, "Conflict", body["metadata"]["name"])
        return self._store(body)

    def _store(self, body: dict[str, Any]) -> dict[str, Any]:
        self.writes += 1
        metadata = body["metadata"] | {"resourceVersion": str(self.writes)}
        self.stored[body["metadata"]["name"]] = body | {"metadata": metadata}
        return body


class TestSecrets:
    def ensure(self, kube: FakeSecrets, now: datetime = NOW) -> dict[str, str]:
        changes = ensure_secrets(kube, "ns", "surgekit-ca", WANTED, now)  # type: ignore[arg-type]  # the fake
        return {c.name: c.action.value for c in changes}

    def test_secrets_have_the_shape_the_deployments_mount(self) -> None:
        kube = FakeSecrets()
        self.ensure(kube)
        assert {n: (s["type"], set(s["data"])) for n, s in kube.stored.items()} == {
            "surgekit-ca": ("Opaque", {"ca.crt", "ca.key"}),
            "server": ("kubernetes.io/tls", {"tls.crt", "tls.key", "ca.crt"}),
            "client": ("kubernetes.io/tls", {"tls.crt", "tls.key", "ca.crt"}),
        }

    def test_a_second_run_writes_nothing(self) -> None:
        kube = FakeSecrets()
        self.ensure(kube)
        assert (self.ensure(kube), kube.writes) == ({"ca": "kept", "server": "kept", "client": "kept"}, 3)

    def test_a_published_ca_reaches_every_secret_though_no_leaf_changes(self) -> None:
        kube = FakeSecrets()
        self.ensure(kube)
        later = NOW + timedelta(days=3650 * 2 / 3 + 1)
        self.ensure(kube, later)
        assert {s["data"]["ca.crt"] for s in kube.stored.values()} == {
            kube.stored["surgekit-ca"]["data"]["ca.crt"]
        }

    def test_of_two_runs_at_once_one_takes_the_others_ca(self) -> None:
        kube = FakeSecrets()

        def rival() -> None:
            kube.before_write = lambda: None
            self.ensure(kube)

        kube.before_write = rival
        assert self.ensure(kube) == {"ca": "kept", "server": "kept", "client": "kept"}
        assert kube.writes == 3

    def test_a_secret_of_cert_manager_is_left_alone(self) -> None:
        kube = FakeSecrets()
        annotations = {"cert-manager.io/certificate-name": "extender"}
        kube.stored["server"] = {"metadata": {"name": "server", "annotations": annotations}, "data": {}}
        with pytest.raises(CertificateError, match="cert-manager"):
            self.ensure(kube)
        assert kube.writes == 0

    def test_a_refusal_is_passed_on(self) -> None:
        kube = FakeSecrets()

        def refuse() -> None:
            raise ApiError(403, "Forbidden", "no")

        kube.before_write = refuse
        with pytest.raises(ApiError, match="Forbidden"):
            self.ensure(kube)


# ---- the reloading context, against real handshakes


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


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_ticket_does_not_outlive_the_trust_in_its_ca(tls: Path, version: ssl.TLSVersion) -> None:
    """With tickets on, OpenSSL resumes past the callback and never looks at the certificate again."""
    context = client_context(tls)
    context.maximum_version = version
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
