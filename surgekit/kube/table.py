"""Tables filled by watches. Each object is read separately, so that one bad object harms no other.

Anybody who may write an object may write nonsense into it. The table skips such an object, counts it, and
names it in an Event. It keeps what it knew about the object, and does not take the object for deleted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from surgekit.kube.events import EventRecorder

__all__ = [
    "ObjectTable",
    "RowTable",
    "Seen",
    "Table",
    "Unreadable",
    "by_full_name",
    "by_name",
    "by_uid",
]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
REASON = "Unreadable"
_EVENTS_A_MINUTE = 10  # in one namespace: somebody may make thousands of unreadable objects
_LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as it arrived, with the identity that the API server gave it."""

    uid: str
    namespace: str  # empty: cluster-scoped
    name: str
    obj: Json
    says: Any = None  # what `Table.read` returned, if readable
    readable: bool = False  # always False for a deleted object: it is not read


class Table(Generic[T]):
    """The consumer of one watch. A subclass reads objects and keeps the rows."""

    def __init__(self, unreadable: Unreadable) -> None:
        self._unreadable = unreadable
        self._faulty: set[str] = set()  # uids

    # --- for the subclass ---

    def read(self, obj: Json) -> T:
        """Read the object. May raise any exception if the object makes no sense."""
        raise NotImplementedError

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:
        """Drop the rows of all objects that are not in `there`, the whole list."""
        raise NotImplementedError

    def put(self, obj: Seen, says: T, arrival_s: float) -> None:
        """Store the object's present state."""
        raise NotImplementedError

    def drop(self, obj: Seen, arrival_s: float) -> None:
        """Remove a deleted object."""
        raise NotImplementedError

    def cannot_read(self, obj: Seen, arrival_s: float) -> None:
        """The object exists and cannot be read. By default the table keeps what it knew."""

    def listed(self, there: Sequence[Seen], arrival_s: float) -> None:
        self.keep(there, arrival_s)
        for obj in there:
            self.take(obj, arrival_s)

    def take(self, obj: Seen, arrival_s: float) -> None:
        if obj.readable:
            try:
                self.put(obj, obj.says, arrival_s)
                return
            except Exception as error:  # readable, but the subclass cannot take it
                self._accuse(obj, error)
        self.cannot_read(obj, arrival_s)

    # --- for the watch ---

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        there = [seen for obj in objects if (seen := self._see(obj))]
        for uid in self._faulty - {seen.uid for seen in there}:
            self._forgive(uid)
        self.listed(there, arrival_s)

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        if kind == "DELETED":
            if gone := _identify(obj):
                self._forgive(gone.uid)
                self.drop(gone, arrival_s)
        elif seen := self._see(obj):
            self.take(seen, arrival_s)

    def _see(self, obj: Json) -> Seen | None:
        seen = _identify(obj)
        if seen is None:
            return None
        try:
            says = self.read(obj)
        except Exception as error:  # somebody may have written anything into it
            self._accuse(seen, error)
            return seen
        self._forgive(seen.uid)
        return Seen(seen.uid, seen.namespace, seen.name, obj, says, readable=True)

    def _accuse(self, obj: Seen, error: Exception) -> None:
        self._faulty.add(obj.uid)
        self._unreadable.note(obj, error)

    def _forgive(self, uid: str) -> None:
        if uid in self._faulty:
            self._faulty.discard(uid)
            self._unreadable.forget(uid)


def by_uid(obj: Seen) -> str:
    return obj.uid


def by_name(obj: Seen) -> str:
    return obj.name


def by_full_name(obj: Seen) -> tuple[str, str]:
    return obj.namespace, obj.name


class ObjectTable(Table[T], Generic[K, T]):
    """A table without rows of its own: it passes each change to functions that keep the state.

    `key` identifies an object. All functions are called from the watch's thread.
    """

    def __init__(
        self,
        unreadable: Unreadable,
        read: Callable[[Json], T],
        *,
        key: Callable[[Seen], K],
        on_list: Callable[[Set[K], float], object],
        on_put: Callable[[K, T, float], object],
        on_drop: Callable[[K, float], object],
        lock: AbstractContextManager[object] | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_list` gets the keys of all objects that exist, `on_put` an object's key and what was read,
        `on_drop` the key of a deleted object. Each also gets the arrival (monotonic seconds), and runs under
        `lock`.

        `on_change` is called afterwards, without the lock: after a list, and after each change unless
        `on_put` or `on_drop` returned False."""
        super().__init__(unreadable)
        self._read, self._key, self._on_change = read, key, on_change
        self._on_list, self._on_put, self._on_drop = on_list, on_put, on_drop
        self._lock = lock or nullcontext()
        self._changed = False
        self.unread: set[str] = set()  # uids of existing objects whose last version could not be taken

    def replace(self, objects: list[Json], arrival_s: float) -> None:
        super().replace(objects, arrival_s)
        self._on_change()

    def apply(self, kind: str, obj: Json, arrival_s: float) -> None:
        self._changed = False
        super().apply(kind, obj, arrival_s)
        if self._changed:
            self._on_change()

    def read(self, obj: Json) -> T:
        return self._read(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:
        with self._lock:
            self.unread &= {obj.uid for obj in there}
            self._on_list({self._key(obj) for obj in there}, arrival_s)

    def put(self, obj: Seen, says: T, arrival_s: float) -> None:
        with self._lock:
            self._changed = self._on_put(self._key(obj), says, arrival_s) is not False
            self.unread.discard(obj.uid)

    def drop(self, obj: Seen, arrival_s: float) -> None:
        with self._lock:
            self._changed = self._on_drop(self._key(obj), arrival_s) is not False
            self.unread.discard(obj.uid)

    def cannot_read(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002  # Table's signature
        with self._lock:
            self.unread.add(obj.uid)
            self._changed = True


class RowTable(ObjectTable[K, T | None], Generic[K, T]):
    """Keeps what was read of each object in `rows`. An object that is read as None has no row."""

    def __init__(
        self,
        unreadable: Unreadable,
        read: Callable[[Json], T | None],
        *,
        key: Callable[[Seen], K],
        lock: AbstractContextManager[object] | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.rows: dict[K, T] = {}
        super().__init__(
            unreadable, read, key=key, lock=lock, on_change=on_change,
            on_list=self._keep_rows, on_put=self._put_row, on_drop=lambda key, _: self.rows.pop(key, None),
        )  # fmt: skip

    def _keep_rows(self, keys: Set[K], _: float) -> None:
        for gone in self.rows.keys() - keys:
            del self.rows[gone]

    def _put_row(self, key: K, row: T | None, _: float) -> None:
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row


def _identify(obj: Json) -> Seen | None:
    """None if the fields that the API server always writes are missing: then it is no object at all."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        return None
    uid, namespace, name = (metadata.get(key) for key in ("uid", "namespace", "name"))
    if not isinstance(uid, str) or not isinstance(name, str) or not isinstance(namespace, str | None):
        return None
    return Seen(uid, namespace or "", name, obj)


class Unreadable(Collector):
    """The objects that one process cannot read: counts them in a metric and posts an Event for each."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._lock = threading.Lock()
        self._kinds: dict[str, str] = {}  # by uid, of existing objects
        self._told: set[str] = set()  # uids with an Event, of existing objects

    def note(self, seen: Seen, error: Exception) -> None:
        kind, why = str(seen.obj.get("kind"))[:63], f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        with self._lock:
            self._kinds[seen.uid] = kind
            if seen.uid in self._told:
                return
            regarding = {"apiVersion": seen.obj.get("apiVersion"), "kind": kind}
            regarding |= {"namespace": seen.namespace, "name": seen.name, "uid": seen.uid}
            text = f"surgekit's {self._events.reporter} leaves it out because it cannot be read: {why}"
            if not self._events.post(regarding, REASON, text, "Warning", a_minute=_EVENTS_A_MINUTE):
                return  # too many at once: it is told with a later change
            self._told.add(seen.uid)
        log.warning("object left out", kind=kind, namespace=seen.namespace, name=seen.name, error=why)

    def forget(self, uid: str) -> None:
        with self._lock:
            self._kinds.pop(uid, None)
            self._told.discard(uid)

    def count(self) -> dict[str, int]:
        """Unreadable objects by kind."""
        with self._lock:
            return dict(Counter(self._kinds.values()))

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            f"surgekit_{self._events.reporter.replace('-', '_')}_unreadable_objects",
            "Objects that are left out because they cannot be read",
            labels=["kind"],
        )
        for kind, count in self.count().items():
            family.add_metric([kind], count)
        yield family
