"""What a build needs to reach the machine's package index: its address, and whom to trust.

The files are mounted while the build runs. No layer and no setting of the image has them.
"""

from __future__ import annotations

import configparser
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["mounts"]

_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"  # on Debian, and so in the image
_PIP_KEYS = ("index-url", "extra-index-url", "trusted-host", "timeout")


def mounts(directory: Path, environ: Mapping[str, str] = os.environ) -> dict[Path, str]:
    """Write pip's and uv's settings into `directory`; return files of this machine -> paths in the build."""
    settings = _pip_settings(environ)
    found = {directory / "pip.conf": "/etc/pip.conf", directory / "uv.toml": "/etc/uv/uv.toml"}
    bundle = environ.get("SSL_CERT_FILE") or environ.get("PIP_CERT") or _BUNDLE
    if Path(bundle).is_file():
        found[Path(bundle).resolve()] = _BUNDLE
    lines = [f"{key} = {' '.join(value.split())}" for key, value in settings.items()]
    (directory / "pip.conf").write_text("\n".join(["[global]", f"cert = {_BUNDLE}", *lines, ""]))
    (directory / "uv.toml").write_text("\n".join([*_uv_lines(settings, environ), ""]))
    return found


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """pip's files, later ones win, then its environment (pip's guide: Configuration)."""
    home = Path(environ.get("HOME", "/nonexistent"))
    read = configparser.RawConfigParser()
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    read.read([*files, Path(environ.get("PIP_CONFIG_FILE", os.devnull))])
    of_files = dict(read["global"]) if "global" in read else {}
    of_environ = {key: environ.get("PIP_" + key.upper().replace("-", "_"), "") for key in _PIP_KEYS}
    merged = of_files | {key: value for key, value in of_environ.items() if value}
    return {key: merged[key] for key in _PIP_KEYS if merged.get(key)}


def _uv_lines(pip: Mapping[str, str], environ: Mapping[str, str]) -> Iterator[str]:
    """uv does not read pip's files. Its own variables win."""
    yield "system-certs = true"
    if index := environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or pip.get("index-url"):
        yield f"index-url = {json.dumps(index)}"
    if extra := environ.get("UV_INDEX") or environ.get("UV_EXTRA_INDEX_URL") or pip.get("extra-index-url"):
        yield f"extra-index-url = {json.dumps(extra.split())}"
    if hosts := environ.get("UV_INSECURE_HOST") or pip.get("trusted-host"):
        yield f"allow-insecure-host = {json.dumps(hosts.split())}"
