"""The fake API server itself: requests in, objects and errors out, with faults on order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from surgekit.kube.api_path import checked
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from tests.fake_api_server.answers import Answers, Request
from tests.fake_api_server.kinds import Kind, parse_path, served_kinds
from tests.fake_api_server.selectors import selector
from tests.fake_api_server.store import Store

__all__ = ["Call", "FakeApiServer"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as it was made."""

    method: str
    path: str
    body: Any = None

    @property
    def writes(self) -> bool:
        return self.method not in ("GET", "WATCH")


@dataclass(slots=True)
class _Fault:
    error: Exception
    left: int
    when: Callable[[Call], bool]


class FakeApiServer(Kube):
    """Pass it where a Kube is wanted. Safe to share between threads, as the client is."""

    def __init__(self, *objects: Json, kinds: tuple[Kind, ...] = ()) -> None:
        self.calls: list[Call] = []
        self.down = False
        self.lose_answers = 0  # of the next writes, which are carried out all the same
        self.before_write: Callable[[Call], object] = lambda call: None
        self._reviews: dict[str, Callable[[Json], Json]] = {}
        self._faults: list[_Fault] = []
        self._cuts = 0
        self._store = Store()
        self._answers = Answers(self._store, (*served_kinds(), *kinds))
        self.add(*objects)

    # --- for the test ---

    @property
    def host(self) -> str:
        return "memory"

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.writes]

    def add(self, *objects: Json) -> None:
        """Store objects whole, status included; one that is there already is replaced."""
        with self._store.changed:
            for obj in objects:
                self._answers.add(_copy(obj))

    def objects(self, plural: str) -> list[Json]:
        """All objects of a resource, by namespace and name."""
        with self._store.changed:
            return [_copy(obj) for kind in self._answers.kinds(plural) for obj in self._store.all(kind)]

    def answer_creations(self, path: str, answer: Callable[[Json], Json]) -> None:
        """For resources that are asked and not stored, such as SubjectAccessReviews."""
        self._reviews[path] = answer

    def fail(
        self, error: Exception, times: int = 1, when: Callable[[Call], bool] = lambda call: call.writes
    ) -> None:
        """Answer the next calls that match with `error`, and do nothing. Without `when`: the next writes."""
        self._faults.append(_Fault(error, times, when))

    def compact(self) -> None:
        """Forget all past versions, as etcd does every five minutes."""
        with self._store.changed:
            self._answers.forget_pages()
            self._store.compact()

    def cut_watches(self) -> None:
        """Break the connections of all watches."""
        with self._store.changed:
            self._cuts += 1
            self._store.changed.notify_all()

    # --- as Kube ---

    def stream(self, path: str, **query: str | int | bool) -> Iterator[list[bytes]]:
        with self._store.changed:
            self._receive(Call("WATCH", checked(path)))
            target = parse_path(path)
            kind = self._answers.kind(target)
            selects = selector(kind, target.namespace, query)
            version, first = int(query.get("resourceVersion") or 0), []
            if not version:
                first = [{"type": "ADDED", "object": o} for o in self._store.all(kind) if selects(o)]
                version = self._store.version
        batches = self._follow(kind, selects, version, float(query["timeoutSeconds"]), self._cuts)
        bookmarks = str(query.get("allowWatchBookmarks")).lower() == "true"
        return (
            [orjson.dumps(event) for event in events]
            for events in chain([first], batches)
            if events and (bookmarks or events[0]["type"] != "BOOKMARK")
        )

    def _follow(
        self, kind: Kind, selects: Callable[[Json], bool], version: int, timeout_s: float, cuts: int
    ) -> Iterator[list[Json]]:
        """The events after `version`, and a bookmark before the end."""
        ends_s = time.monotonic() + timeout_s
        while (left_s := ends_s - time.monotonic()) > 0:
            with self._store.changed:
                try:
                    changes = self._store.since(version, kind)
                except ApiError as error:
                    expired = error
                    break
                version = self._store.version
                if not changes:
                    self._store.changed.wait(left_s)
                if self._cuts != cuts or self.down:
                    raise KubeUnreachable("the watch broke off")
            yield [event for change in changes if (event := change.event(selects))]
        else:
            yield [{"type": "BOOKMARK", "object": _bookmark(kind, version)}]
            return
        yield [{"type": "ERROR", "object": status_of(expired)}]

    def _json(
        self,
        method: str,
        path: str,
        query: dict[str, str | int | bool],
        body: Any = None,
        content_type: str = "application/json",
    ) -> Json:
        call = Call(method, checked(path), _copy(body))
        if call.writes:
            self.before_write(call)
        with self._store.changed:
            self._receive(call)
            if method == "POST" and path in self._reviews:
                found = self._reviews[path](call.body)
            else:
                found = self._answers.answer(Request(method, path, query, call.body, content_type))
            if call.writes and self.lose_answers:
                self.lose_answers -= 1
                raise KubeUnreachable(f"{method} {path}: the answer was lost")
            answer: Json = _copy(found)
            return answer

    def _receive(self, call: Call) -> None:
        self.calls.append(call)
        if self.down:
            raise KubeUnreachable(f"{call.method} {call.path}: connection refused")
        for fault in self._faults:
            if fault.left and fault.when(call):
                fault.left -= 1
                raise fault.error


def status_of(error: ApiError) -> Json:
    """The error as the API server writes it."""
    return {
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "code": error.code, "reason": error.reason, "message": error.message,
    }  # fmt: skip


def _bookmark(kind: Kind, version: int) -> Json:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def _copy(obj: Any) -> Any:
    """Through JSON, as over the wire: what cannot be written in it is refused here too."""
    return orjson.loads(orjson.dumps(obj))
