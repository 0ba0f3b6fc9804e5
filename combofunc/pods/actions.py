"""What can be done to a function's pods. Each can be lost or done twice without harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from combofunc.pods.resources import Resources

__all__ = ["Action", "Create", "Delete", "Drain", "Mark", "Release", "Resize", "Undrain"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """A pod of this name, unless it is there. With a node: behind the gate, and released for it at once when
    `release`."""

    pod: str
    body: Json
    node: str = ""
    release: bool = False

    @property
    def key(self) -> str:
        """Of one creation among all functions'."""
        return f"{self.body['metadata']['ownerReferences'][0]['uid']}/{self.pod}"


@dataclass(frozen=True, slots=True)
class Release:
    """Nominate the pod for its planned node, if that is still wanted, and take the gate off."""

    pod: str
    uid: str
    node: str  # empty: for none, wherever the scheduler likes


@dataclass(frozen=True, slots=True)
class Resize:
    pod: str
    uid: str
    wanted: Resources


@dataclass(frozen=True, slots=True)
class Mark:
    """Say what the pod is now."""

    pod: str
    uid: str
    size: str
    concurrency: int


@dataclass(frozen=True, slots=True)
class Drain:
    """No new requests for it from now on."""

    pod: str
    uid: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Undrain:
    pod: str
    uid: str


@dataclass(frozen=True, slots=True)
class Delete:
    pod: str
    uid: str
    why: str


Action = Create | Release | Resize | Mark | Drain | Undrain | Delete
