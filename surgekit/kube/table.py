"""Tables filled by watches. Each object is read separately, so that one bad object harms no other.

Anybody who may write an object may write nonsense into it. The table skips such an object, counts it, and
names it in an Event. It keeps what it knew about the object, and does not take the object for deleted.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from surgekit.kube.client import Kube
from surgekit.kube.events import Events

__all__ = ["ObjectTable", "Seen", "Table", "Unreadable"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
T = TypeVar("T")
REASON = "Unreadable"
# Somebody may make thousands of unreadable objects: a few Events are enough.
_EVENTS_A_MINUTE = 10
_REMEMBERED = 1000
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


class ObjectTable(Table[T]):
    """A table without rows of its own: it passes each change to functions that keep the state.

    Objects are identified by `key`. All functions are called from the watch's thread.
    """

    def __init__(
        self,
        unreadable: Unreadable,
        read: Callable[[Json], T],
        *,
        on_list: Callable[[Set[str]], None],
        on_put: Callable[[str, T, float], None],
        on_drop: Callable[[str], None],
        key: Literal["uid", "name"] = "uid",
    ) -> None:
        """`on_list` gets the keys of all objects that exist, `on_put` an object's key, what was read of it,
        and when it arrived (monotonic seconds), `on_drop` the key of a deleted object."""
        super().__init__(unreadable)
        self._read, self._on_list, self._on_put, self._on_drop = read, on_list, on_put, on_drop
        self._by_name = key == "name"

    def read(self, obj: Json) -> T:
        return self._read(obj)

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:  # noqa: ARG002  # Table's signature
        self._on_list({self._key(obj) for obj in there})

    def put(self, obj: Seen, says: T, arrival_s: float) -> None:
        self._on_put(self._key(obj), says, arrival_s)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002  # Table's signature
        self._on_drop(self._key(obj))

    def _key(self, obj: Seen) -> str:
        return obj.name if self._by_name else obj.uid


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

    def __init__(self, kube: Kube, component: str) -> None:
        self._kube, self._component = kube, component
        self._lock = threading.Lock()
        self._kinds: dict[str, str] = {}  # by uid, of existing objects
        self._told: dict[str, None] = {}  # uids with an Event, the oldest first
        self._posted_s: deque[float] = deque(maxlen=_EVENTS_A_MINUTE)
        self._to_post: queue.SimpleQueue[tuple[Json, str]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def note(self, seen: Seen, error: Exception) -> None:
        kind, why = str(seen.obj.get("kind"))[:63], f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
        with self._lock:
            self._kinds[seen.uid] = kind
            if not self._may_tell(seen.uid):
                return
        log.warning("object left out", kind=kind, namespace=seen.namespace, name=seen.name, error=why)
        self._post(seen.obj, f"surgekit's {self._component} leaves it out because it cannot be read: {why}")

    def forget(self, uid: str) -> None:
        with self._lock:
            self._kinds.pop(uid, None)
            self._told.pop(uid, None)

    def count(self) -> dict[str, int]:
        """Unreadable objects by kind."""
        with self._lock:
            return dict(Counter(self._kinds.values()))

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            f"surgekit_{self._component}_unreadable_objects",
            "Objects that are left out because they cannot be read",
            labels=["kind"],
        )
        for kind, count in self.count().items():
            family.add_metric([kind], count)
        yield family

    def _may_tell(self, uid: str) -> bool:
        now_s = time.monotonic()
        full = len(self._posted_s) == _EVENTS_A_MINUTE and now_s - self._posted_s[0] < 60
        if uid in self._told or full:
            return False
        self._told[uid] = None
        while len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        self._posted_s.append(now_s)
        return True

    def _post(self, obj: Json, note: str) -> None:
        """Queue the Event for a thread of its own, because a decision thread may feed the table."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="unreadable", daemon=True)
            self._thread.start()
        self._to_post.put((obj, note))

    def _run(self) -> None:
        while True:
            obj, note = self._to_post.get()
            try:
                events = Events(self._kube, self._component, str(obj.get("apiVersion")), str(obj.get("kind")))
                events.post(obj["metadata"], REASON, note, "Warning")
            except Exception:
                log.exception("event not posted")
