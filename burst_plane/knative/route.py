"""Which revision a function's requests go to, and what each of its pods takes at once. Pure.

Only one revision can have them: HAProxy gives a function one set of slots. A Knative Service whose traffic is
split keeps Knative's own way for all of its requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burst_plane.burst_function import BurstFunction
from burst_plane.knative.objects import KnativeService, Revision

__all__ = ["NotRouted", "Route", "route"]


@dataclass(frozen=True, slots=True)
class Route:
    namespace: str
    revision: str
    uid: str  # the revision's
    concurrency: int
    ready: int  # pods, as Knative counts them
    wanted: int  # by Knative's autoscaler


@dataclass(frozen=True, slots=True)
class NotRouted:
    """Requests go Knative's own way. `reason` is the condition Eligible's."""

    reason: str
    message: str


def route(
    function: BurstFunction,
    service: Callable[[str], KnativeService | None],
    revision: Callable[[str], Revision | None],
) -> Route | NotRouted:
    """`service` and `revision` give what there is of a name in the function's namespace."""
    target, name = function.target, function.target.name
    if target.kind == "Service":
        found = service(name)
        if found is None:
            return NotRouted("NoTarget", f"there is no Knative Service {name} that can be read")
        if len(found.revisions) != 1:
            among = ", ".join(found.revisions[:3]) or "no revision yet"
            return NotRouted("TrafficSplit", f"its traffic goes to {among}; exactly one is supported")
        name = found.revisions[0]
    known = revision(name)
    if known is None:
        return NotRouted("NoTarget", f"there is no Revision {name} that can be read")
    if known.http2:
        return NotRouted("CannotBeHonoured", f"Revision {name}: its port h2c takes HTTP/2 only")
    # Without a limit of the revision's own, ours says from when on a request is excess traffic.
    concurrency = known.concurrency or function.concurrency
    return Route(target.namespace, name, known.uid, concurrency, known.ready, known.wanted)
