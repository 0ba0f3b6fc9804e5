"""The BurstFunctions that this leader knows, and what it has found out about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from burst_plane import burst_function
from burst_plane.burst_function import BurstFunction, SpecError
from burst_plane.knative.route import NotRouted, Route
from burst_plane.model import InstanceSpec
from burst_plane.status import Regular
from surgekit.kube.conditions import status_before
from surgekit.process.modes import Mode

__all__ = ["Functions", "Known", "Resolution"]

Json = dict[str, Any]
_NEVER_S = -1e9


@dataclass(frozen=True, slots=True)
class Resolution:
    """A function's instance, or why it has none: `reason` is the condition Eligible's."""

    spec: InstanceSpec | None
    reason: str
    message: str
    template: str = ""  # the spec's name
    size: int = 0  # bytes of the spec in a message


_RESOLVING = Resolution(None, "Resolving", "its pod template was not looked at yet")


@dataclass(slots=True)
class Known:
    """One function. An object that cannot be read keeps its last valid spec: regular scaling goes by it."""

    obj: Json
    spec: BurstFunction
    mode: Mode
    since_s: float  # this leader knows it
    error: str = ""  # why the object cannot be read now
    refused: Resolution | None = None  # older objects have taken its place
    route: Route | NotRouted | None = None  # of a Knative target
    resolution: Resolution = _RESOLVING
    looked_at: tuple[object, ...] = ()  # what the resolution was made from
    resolved_s: float = _NEVER_S
    regular: Regular = field(default_factory=lambda: Regular(0, 0, ""))
    scaled: bool = False  # its target has the scale that a leader gave it, this one or one before

    @property
    def found(self) -> Resolution:
        """What holds now, whatever the pod template is like."""
        if self.error:
            return Resolution(None, "InvalidSpec", self.error)
        if self.mode is Mode.OFF:
            return Resolution(None, "Off", "nothing is looked at")
        if self.refused is None and isinstance(self.route, NotRouted):
            return Resolution(None, self.route.reason, self.route.message)
        return self.refused or self.resolution

    @property
    def revision(self) -> Route | None:
        """The Knative revision whose pods HAProxy balances for this function; None: requests go Knative's own
        way."""
        served = self.mode is not Mode.OFF and self.refused is None and isinstance(self.route, Route)
        return self.route if served and isinstance(self.route, Route) else None


class Functions:
    """By uid. `invalid` has those of which no version could be read, and why."""

    def __init__(self, most_mode: Mode, most_in_namespace: int) -> None:
        self._most_mode, self._most = most_mode, most_in_namespace
        self._known: dict[str, Known] = {}
        self.invalid: dict[str, tuple[Json, str]] = {}

    def __iter__(self) -> Iterator[Known]:
        return iter(self._known.values())

    def read(self, objects: Iterable[Json], now_s: float) -> list[Known]:
        """Take what there is now. Return what is gone."""
        there = {str(obj["metadata"]["uid"]): obj for obj in objects}
        self.invalid = {}
        for uid, obj in there.items():
            known = self._known.get(uid)
            if known is not None and known.obj is obj:
                continue
            try:
                spec = burst_function.read(obj)
            except SpecError as error:
                if known is None:
                    self.invalid[uid] = (obj, str(error))
                else:
                    known.obj, known.error = obj, str(error)
                continue
            mode = min(spec.mode, self._most_mode, key=list(Mode).index)
            if known is None:
                known = self._known[uid] = Known(obj, spec, mode, now_s)
                known.scaled = status_before(obj).get("mode") == Mode.ENFORCE
            known.obj, known.spec, known.mode, known.error = obj, spec, mode, ""
            known.scaled |= mode is Mode.ENFORCE
        gone = [self._known.pop(uid) for uid in self._known.keys() - there.keys()]
        self._refuse()
        return gone

    def find_routes(self, route_of: Callable[[BurstFunction], Route | NotRouted | None]) -> None:
        """Look where Knative sends requests. One revision has one function, the oldest."""
        taken: dict[str, str] = {}
        for known in sorted(self, key=_age):
            found = route_of(known.spec)
            if isinstance(found, Route) and known.mode is not Mode.OFF and known.refused is None:
                holder = taken.setdefault(found.uid, known.spec.function.name)
                if holder != known.spec.function.name:
                    why = f"BurstFunction {holder} is older and has the same revision, {found.revision}"
                    found = NotRouted("TargetTaken", why)
            known.route = found

    def _refuse(self) -> None:
        """The oldest hold: so many in a namespace, one for a target. The work for a tenant is bounded."""
        why_many = f"only the {self._most} oldest BurstFunctions of a namespace may overflow"
        for known in self:
            known.refused = None
        for group in self._groups(lambda k: k.spec.function.namespace):
            for known in group[self._most :]:
                known.refused = Resolution(None, "TooManyFunctions", why_many)
        for first, *others in self._groups(lambda k: k.spec.target):
            for known in others:
                why = f"BurstFunction {first.spec.function.name} is older and has the same target"
                known.refused = Resolution(None, "TargetTaken", why)

    def _groups(self, key: Callable[[Known], object]) -> list[list[Known]]:
        """Each with its oldest first."""
        groups: dict[object, list[Known]] = {}
        for known in sorted(self, key=_age):
            groups.setdefault(key(known), []).append(known)
        return list(groups.values())


def _age(known: Known) -> tuple[str, str, str]:
    function = known.spec.function
    return str(known.obj["metadata"].get("creationTimestamp")), function.namespace, function.name
