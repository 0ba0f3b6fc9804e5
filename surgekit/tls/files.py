"""Store certificates in a directory: for the lab, for tests, for a control plane managed by hand."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from surgekit.tls.issue import CertificateError, Change, Client, Leaf, Pem, Server, renew

__all__ = ["ensure", "read_pem", "write_atomically"]

_CA, _SERVER = "ca", "tls"
_CLIENT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def ensure(
    directory: Path, hosts: Sequence[str], client_names: Sequence[str], now: datetime
) -> tuple[Change, ...]:
    """Keep `ca`, `tls` (for `hosts`, if any) and one pair per client name in `directory`.

    Each is a `.crt` and a `.key` file. `ca.crt` holds every CA that has to be trusted. Returns what was
    done for each. Good files are not touched.
    """
    wanted: list[Leaf] = [Server(_SERVER, tuple(hosts))] if hosts else []
    for name in client_names:
        if name in (_CA, _SERVER) or not _CLIENT_NAME.fullmatch(name):
            raise CertificateError(f"client name {name!r} cannot be a file's name here")
        wanted.append(Client(name, common_name=name))
    ca = read_pem(directory, _CA)
    stored = {leaf.name: pem for leaf in wanted if (pem := read_pem(directory, leaf.name))}
    renewal = renew(ca, stored, wanted, now)
    directory.mkdir(parents=True, exist_ok=True)
    if renewal.ca != ca:
        _write_pair(directory, _CA, renewal.ca)
    for name, pem in renewal.leaves.items():
        if pem != stored.get(name):
            _write_pair(directory, name, pem)
    return renewal.changes


def read_pem(directory: Path, name: str) -> Pem | None:
    """The pair stored under `name`, or None if either half is missing."""
    try:
        return Pem((directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes())
    except FileNotFoundError:
        return None


def _write_pair(directory: Path, name: str, pem: Pem) -> None:
    write_atomically(directory / f"{name}.key", pem.keys, 0o600)
    write_atomically(directory / f"{name}.crt", pem.certificates, 0o644)


def write_atomically(path: Path, content: bytes, mode: int) -> None:
    """Replace a file in one step. Readers see the old or the new content, and nobody else can read a key."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # opens with 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
