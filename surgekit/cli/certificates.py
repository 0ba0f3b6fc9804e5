"""`surgekit certificates`: make and renew what the extender's TLS needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from surgekit.cli.json_file import JsonFile, write_json
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.tls import CertificateError, Change, Client, Server, ensure, ensure_secrets

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, help="Make and renew the certificates our servers and their callers use."
)

# The Secrets that manifests/ mount; the RBAC in manifests/overlays/self-signed names the same ones.
_CA_SECRET = "surgekit-ca"  # noqa: S105  # a Secret's name, not its content
_SERVERS = {
    "surgekit-extender-tls": "surgekit-extender",
    "surgekit-expander-tls": "surgekit-expander",
    "surgekit-adapter-tls": "surgekit-adapter",
    "surgekit-limit-allocator-tls": "surgekit-limit-allocator",
    "surgekit-burst-controller-tls": "surgekit-burst-controller",
}
_CLIENTS = (
    "surgekit-scheduler-client-tls=kube-scheduler",
    "surgekit-burst-controller-client-tls=surgekit-burst-controller",
    "surgekit-burst-placement-tls=surgekit-burst-placement",
)
# In a namespace of their own; kept where their keeper has the right (certificate.yaml of their part).
_AGENTS: tuple[Server | Client, ...] = (
    Client("surgekit-limit-agent-tls", "surgekit-limit-agent", namespace="surgekit-agents"),
    Server("surgekit-pulselet-tls", ("surgekit-pulselet",), namespace="surgekit-agents"),
)


@app.command()
def files(
    directory: Annotated[Path, typer.Argument(help="Where ca, tls and one pair per client are kept.")],
    host: Annotated[list[str] | None, typer.Option(help="DNS name or address of the server.")] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="Common name of a client, and its files' name.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Keep certificates in a directory; renew those with under a third of their time left."""
    with _errors_said():
        _say(ensure(directory, host or [], client or [], datetime.now(UTC)), json_file)


@app.command()
def secrets(
    namespace: Annotated[str, typer.Option(help="Where the Secrets are kept.")] = "surgekit-system",
    server: Annotated[
        list[str] | None,
        typer.Option(help="SECRET=HOST,HOST... of a server; those of our Services unless given."),
    ] = None,
    client: Annotated[
        list[str] | None,
        typer.Option(
            help="SECRET=COMMON_NAME of a client; those of our own clients, and our agents', unless given."
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Cluster; the pod's own or the current one.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Keep certificates in Kubernetes Secrets; what the bootstrap Job and the CronJob run."""
    with _errors_said():
        wanted: list[Server | Client] = [
            *(
                Server(name, tuple(hosts.split(",")))
                for name, hosts in _pairs(server or _services(namespace))
            ),
            *(Client(name, common_name) for name, common_name in _pairs(client or _CLIENTS)),
            *(() if client else _AGENTS),
        ]
        changes = ensure_secrets(Kube.connect(kubeconfig), namespace, _CA_SECRET, wanted, datetime.now(UTC))
        _say(changes, json_file)


def _services(namespace: str) -> list[str]:
    names = ((secret, f"{service}.{namespace}") for secret, service in _SERVERS.items())
    return [f"{secret}={name}.svc,{name}.svc.cluster.local,{name}" for secret, name in names]


def _pairs(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals and value):
            raise CertificateError(f"{option!r} is not of the form SECRET=NAME")
        yield name, value


@contextmanager
def _errors_said() -> Iterator[None]:
    try:
        yield
    except (CertificateError, ApiError, KubeUnreachable, OSError) as error:
        Console(stderr=True).print(
            f"certificates not kept: {error}", style="red", markup=False, soft_wrap=True
        )
        raise typer.Exit(1) from error


def _say(changes: Sequence[Change], json_file: Path | None) -> None:
    if write_json([dataclasses.asdict(change) for change in changes], json_file):
        return
    table = Table("certificate", "what", "why", "valid until", box=None)
    for change in changes:
        table.add_row(change.name, change.action, change.reason, f"{change.not_after:%Y-%m-%d}")
    Console().print(table)
