"""Download release binaries instead of building them.

kwokctl knows where every project keeps its releases (`kwokctl get artifacts`), so no address is written
here. Untested: the machines this was written on cannot reach the hosts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import urllib.request
from pathlib import Path

from kwok.binaries.groups import KUBERNETES_VERSION, Group
from kwok.errors import BinariesError

__all__ = ["download"]


def download(group: Group, into: Path, kwokctl: Path) -> None:
    """Download all binaries of `group` into the directory `into`."""
    listing = subprocess.run(
        [kwokctl, "get", "artifacts", "--runtime", "binary"],
        env=dict(os.environ) | {"KWOK_KUBE_VERSION": KUBERNETES_VERSION, "KWOK_WORKDIR": str(into / ".kwok")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for address in listing.stdout.split():
        url, _, member = address.partition("#")
        binary = member or url.rsplit("/", 1)[-1]
        if binary in group.packages:
            _fetch(url, member, into / binary)


def _fetch(url: str, member: str, target: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=60) as response, target.open("wb") as file:  # noqa: S310  # https, from kwokctl
            if not member:
                shutil.copyfileobj(response, file)
            else:
                with tarfile.open(fileobj=response, mode="r|*") as archive:
                    for entry in archive:
                        if entry.isfile() and Path(entry.name).name == member:
                            shutil.copyfileobj(archive.extractfile(entry), file)  # type: ignore[arg-type]  # isfile
    except (OSError, tarfile.TarError) as error:
        raise BinariesError(f"downloading {url} failed: {error}") from error
    target.chmod(0o755)
