"""Images: their names, who may use them, and how their programs are started."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = [
    "Credentials",
    "ImageConfig",
    "ImageNameError",
    "allowed",
    "credentials",
    "full_name",
    "read_config",
]

# https://github.com/distribution/reference: a host with an optional port, a path, a tag, a digest. Nothing in
# it can be an option of a command, or lead out of a directory.
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?"
_NAME = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_LONGEST = 512
_HUB = "docker.io"


class ImageNameError(ValueError):
    """No name of an image."""


@dataclass(frozen=True)
class ImageConfig:
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    working_directory: str = ""


@dataclass(frozen=True, repr=False)
class Credentials:
    """Has no repr: it must not reach a log."""

    user: str
    password: str


def full_name(name: str) -> str:
    """As containerd wants it: with a registry and a tag. Raise ImageNameError."""
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise ImageNameError(f"{name[:80]!r} is not the name of an image")
    first, slash, _ = name.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        name = f"{_HUB}/{name}" if slash else f"{_HUB}/library/{name}"
    last = name.rpartition("/")[2]
    return name if ":" in last or "@" in last else f"{name}:latest"


def allowed(full: str, prefixes: Sequence[str]) -> bool:
    """Whether an image may be used. A prefix ends where a part of the name ends: registry.example/team does
    not allow registry.example/team-of-others."""
    return not prefixes or any(
        full.startswith(each) and (each[-1:] in "/:@" or full[len(each) : len(each) + 1] in ("/", ":", "@"))
        for each in prefixes
        if each
    )


def credentials(document: str, full: str) -> Credentials | None:
    """The entry of a dockerconfigjson document for this image's registry. What cannot be read has none."""
    try:
        auths = msgspec.json.decode(document.encode(errors="replace")).get("auths") if document else None
    except (msgspec.MsgspecError, AttributeError, RecursionError):
        return None
    if not isinstance(auths, dict):
        return None
    best: tuple[int, Credentials] | None = None
    for key, value in auths.items():
        place = re.sub(r"^https?://|/v[12]/?$|/$", "", str(key))
        place = _HUB if place in ("index.docker.io", "registry-1.docker.io") else place
        found = _credentials(value)
        if (
            found
            and (full == place or full.startswith(f"{place}/"))
            and (best is None or len(place) > best[0])
        ):
            best = len(place), found
    return best[1] if best else None


def _credentials(value: Any) -> Credentials | None:
    if not isinstance(value, dict):
        return None
    user, password = value.get("username"), value.get("password")
    if isinstance(auth := value.get("auth"), str) and auth:
        try:
            user, _, password = base64.b64decode(auth, validate=True).decode().partition(":")
        except ValueError:  # neither base64 nor UTF-8
            return None
    usable = isinstance(user, str) and isinstance(password, str) and user and password
    # They are typed into a prompt, a line each.
    if not usable or any(c in f"{user}{password}" for c in "\n\r\0\x03\x04") or ":" in str(user):
        return None
    return Credentials(str(user), str(password))


def read_config(document: bytes) -> ImageConfig:
    """An image's configuration. What is not as it should be is as if it were not there."""
    try:
        whole = msgspec.json.decode(document)
        config = whole.get("config") or {}
        return ImageConfig(
            _strings(config.get("Entrypoint")),
            _strings(config.get("Cmd")),
            tuple(each for each in _strings(config.get("Env")) if "=" in each),
            str(config.get("WorkingDir") or ""),
        )
    except (msgspec.MsgspecError, AttributeError, RecursionError, UnicodeDecodeError):
        return ImageConfig()


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
