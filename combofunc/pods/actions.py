"""Actions on a function's pods. Each can be lost or done twice without harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from combofunc.pods.resources import Resources

__all__ = ["Action", "Create", "Delete", "Drain", "Mark", "Release", "Resize", "Undrain"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Create:
    """Create a pod unless it exists. With a node it is gated; `release` removes the gate at once."""

    pod: str
    body: Json
    node: str = ""
    release: bool = False

    @property
    def key(self) -> str:
        """Identifies this creation among those of all functions."""
        return f"{self.body['metadata']['ownerReferences'][0]['uid']}/{self.pod}"


@dataclass(frozen=True, slots=True)
class Release:
    """Nominate the pod for its planned node, if that still exists, and remove the gate."""

    pod: str
    uid: str
    node: str  # empty: no nomination, the scheduler chooses


@dataclass(frozen=True, slots=True)
class Resize:
    pod: str
    uid: str
    wanted: Resources


@dataclass(frozen=True, slots=True)
class Mark:
    """Label the pod with its size and concurrency."""

    pod: str
    uid: str
    size: str
    concurrency: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Send the pod no new requests."""

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
