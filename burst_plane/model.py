"""What the parts of the burst plane say about functions, instances and nodes. Units are in the names."""

from __future__ import annotations

import hashlib

import msgspec

__all__ = ["Function", "InstanceSpec", "NodeState", "Preparation", "Prepared", "Security", "Started"]


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Sent between processes as it is: fields by name, new ones with a default."""


class Function(msgspec.Struct, frozen=True, order=True):
    """A BurstFunction's identity. Requests name it by their Host, `name.namespace`."""

    namespace: str
    name: str

    @property
    def host(self) -> str:
        return f"{self.name}.{self.namespace}".lower()


class Security(_Value, frozen=True):
    """What of a container's securityContext an emergency instance keeps. Everything else is at its strictest:
    no new privileges, no host namespace, no device."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    capabilities: tuple[str, ...] = ()  # CAP_..., kept; all others are dropped
    read_only_root: bool = False
    seccomp: bool = True  # the runtime's default profile; False: Unconfined, where its namespace allows it


class InstanceSpec(_Value, frozen=True):
    """What a node agent needs to start an instance: a container of the pod that a dry-run create returned."""

    image: str
    command: tuple[str, ...] = ()  # empty: the image's entrypoint
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()  # Secrets and ConfigMaps resolved: never log it
    working_directory: str = ""
    port: int = 8080  # where the function takes HTTP requests
    cpu_millis: int = 1000  # the quota, and what it takes of the node's share
    memory_bytes: int = 128 << 20
    pids: int = 256
    scratch_bytes: int = 64 << 20  # what it may write to its root and /tmp together; counts as memory
    security: Security = Security(uid=65534, gid=65534)
    pull_auth: str = ""  # a dockerconfigjson document; never log it
    always_pull: bool = (
        False  # the registry says whether this pull_auth may have the image, even if it is here
    )
    longest_s: float = 300.0  # an invocation is ended after this time

    @property
    def template(self) -> str:
        """Names the spec: equal specs have equal names. Nothing to show: Secrets could be guessed by it."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()[:16]


class Preparation(_Value, frozen=True):
    """How ready a node should be for one function."""

    function: Function
    spec: InstanceSpec
    created: int = 0  # containers created and not started
    frozen: int = 0  # containers started, initialised and frozen; their memory counts


class Prepared(_Value, frozen=True):
    """How ready a node is for one function."""

    function: Function
    template: str
    image_present: bool
    created: int = 0
    frozen: int = 0
    error: str = ""  # why it cannot be prepared: the image is missing, its process exits at once


class NodeState(_Value, frozen=True):
    """One node agent's account of itself."""

    node: str
    cpu_millis: int  # the share of the node that instances may take
    memory_bytes: int
    cpu_millis_free: int
    memory_bytes_free: int
    draining: bool = False  # starts nothing any more; what runs may end
    prepared: tuple[Prepared, ...] = ()


class Started(_Value, frozen=True):
    """An instance that takes its one request."""

    instance: str
    address: str
    port: int
    origin: str  # frozen, created or cold: what it was started from
    start_s: float  # from the agent's receipt until its port was open
