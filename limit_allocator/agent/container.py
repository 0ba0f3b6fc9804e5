"""One container that the agent looks after."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from limit_allocator.allocation.model import PAGE_BYTES
from limit_allocator.cgroups.container import Container, Limits
from limit_allocator.cgroups.layout import ContainerCgroup
from limit_allocator.wire.messages import Ceiling, Found, Pod

__all__ = ["Held", "amended"]


@dataclass(slots=True)
class Held:
    key: int
    pod: Pod  # as last ordered
    container: Container
    # Its own limits, as the pod's spec has them. Nothing is ever set above.
    quota_us: int
    memory_bytes: int
    name: str = field(init=False)  # of its accounts
    used_bytes: int = 0  # without page cache, as last read
    events: int = 0
    oom_kills: int | None = None  # None: not read yet
    stuck_at_bytes: int = 0  # the limit it hit since the last report
    hungry: bool = False  # it hit its limit, and nothing was left in the reserve
    near: bool = False  # its limit, when last read: so read it again at the next tick

    def __post_init__(self) -> None:
        self.name = str(self.key)

    @property
    def cgroup(self) -> ContainerCgroup:
        return self.container.cgroup

    @property
    def enforced(self) -> bool:
        return self.pod.enforce

    @property
    def found(self) -> Found:
        cgroup = self.cgroup
        return Found(
            key=self.key, pod_uid=cgroup.pod_uid, container_id=cgroup.container_id,
            quota_us=self.quota_us, memory_bytes=self.memory_bytes,
        )  # fmt: skip

    def ceiling_in(self, pod: Pod) -> tuple[int, int]:
        """Quota and memory limit by the pod's spec; until the API server knows the container, its own."""
        ceiling = next((c for c in pod.ceilings if c.container_id == self.cgroup.container_id), None)
        if ceiling is None or not _is_limit(ceiling):
            return self.quota_us, self.memory_bytes
        return ceiling.quota_us, ceiling.memory_bytes - ceiling.memory_bytes % PAGE_BYTES


def _is_limit(ceiling: Ceiling) -> bool:
    return ceiling.quota_us > 0 and ceiling.memory_bytes >= PAGE_BYTES


def amended(original: Limits, quota_us: int, memory_bytes: int) -> Limits:
    """The originals after a resize. The allowance of swap stays, and a burst is never above its quota."""
    memsw_bytes = original.memsw_bytes
    if memsw_bytes is not None and original.memory_bytes is not None:
        memsw_bytes += memory_bytes - original.memory_bytes
    return replace(
        original,
        quota_us=quota_us,
        burst_us=min(original.burst_us, quota_us),
        memory_bytes=memory_bytes,
        memsw_bytes=memsw_bytes,
    )
