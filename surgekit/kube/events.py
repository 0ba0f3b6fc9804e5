"""Posts Events on objects we decide about, for `kubectl describe`. A process has one recorder.

Nobody waits for an Event: it is queued, and the recorder's thread posts it. What tenants cause is bounded:
- The same Event about the same object is posted once in `REPEAT_S`.
- A namespace gets a number of Events a minute for each reason, and a share of the queue. Namespaces take
  turns, so one with thousands of bad objects does not silence the others.
- An Event that finds no room, or that the API server does not take, is logged and dropped.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any, Literal

import structlog

from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["A_MINUTE", "REPEAT_S", "EventRecorder", "Events"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
Type = Literal["Normal", "Warning"]
_EVENTS = Resource("events.k8s.io/v1", "events")
_NOTE_BYTES = 1024  # the API server refuses longer ones
_NAME = 230  # characters of 253; the time takes the rest
REPEAT_S = 300.0
A_MINUTE = 60  # Events of one reason in one namespace: more than 30 KneePolicies that search
_REMEMBERED = 1000
_WAITING, _WAITING_IN_NAMESPACE = 1000, 100
_FLUSH_S = 3.0  # of the 10 s that a process has to stop


class EventRecorder:
    """Queues, deduplicates and posts all Events of one process. Safe to share between threads."""

    def __init__(self, kube: Kube, reporter: str) -> None:
        self._kube, self.reporter = kube, reporter
        self._changed = threading.Condition()  # guards everything below
        self._posted: dict[tuple[str, ...], float] = {}  # when what was said, the oldest first
        # When the last Events were taken, by namespace and reason; the longest silent first.
        self._recent: dict[tuple[str, str], deque[float]] = {}
        self._waiting: dict[str, deque[Json]] = {}  # by namespace; the first one's turn is next
        self._stop_at_s = math.inf
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to post. What was said before waits until then."""
        self._thread.start()

    def stop(self) -> None:
        """Post what is queued, as far as that takes no longer than `_FLUSH_S`."""
        with self._changed:
            self._stop_at_s = time.monotonic() + _FLUSH_S
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(_FLUSH_S)

    def about(self, api_version: str, kind: str) -> Events:
        return Events(self, api_version, kind)

    def post(
        self,
        regarding: Mapping[str, Any],
        reason: str,
        note: str,
        type_: Type = "Normal",
        *,
        a_minute: int = A_MINUTE,
    ) -> bool:
        """Queue one Event about the object that `regarding` refers to. Return whether it was taken.

        `reason` is a word, `note` a sentence. Not taken: a repeat, more than `a_minute` for this reason and
        namespace, or no room. Never raises and never waits.
        """
        reference = {key: str(value) for key, value in regarding.items() if value}
        note = note.encode(errors="replace")[:_NOTE_BYTES].decode(errors="ignore")
        namespace = reference.get("namespace", "")  # empty: cluster-scoped, and no namespace's share
        said = (*(reference.get(key, "") for key in ("kind", "namespace", "name", "uid")), reason, note)
        now_s = time.monotonic()
        with self._changed:
            if now_s - self._posted.get(said, -math.inf) < REPEAT_S:
                return False
            if not self._may_say_more((namespace, reason), a_minute, now_s):
                return False
            waiting = self._waiting.get(namespace, ())
            full = sum(map(len, self._waiting.values())) >= _WAITING or len(waiting) >= _WAITING_IN_NAMESPACE
            if taken := not full and self._stop_at_s == math.inf:
                self._remember(said, now_s)
                body = _event(self.reporter, reference, reason, note, type_)
                self._waiting.setdefault(namespace, deque()).append(body)
                self._changed.notify()
        if not taken:
            log.warning("event not queued", namespace=namespace, about=reference.get("name"), reason=reason)
        return taken

    def _may_say_more(self, key: tuple[str, str], a_minute: int, now_s: float) -> bool:
        for old in list(takewhile(lambda key: now_s - self._recent[key][-1] >= 60, self._recent)):
            del self._recent[old]
        recent = self._recent.get(key) or deque(maxlen=a_minute)
        if len(recent) == a_minute and now_s - recent[0] < 60:
            return False
        recent.append(now_s)
        self._recent.pop(key, None)  # the newest last
        self._recent[key] = recent
        return True

    def _remember(self, said: tuple[str, ...], now_s: float) -> None:
        self._posted.pop(said, None)  # the newest last
        self._posted[said] = now_s
        while len(self._posted) > _REMEMBERED:
            del self._posted[next(iter(self._posted))]

    # --- the thread ---

    def _run(self) -> None:
        while body := self._next():
            self._create(body)

    def _next(self) -> Json | None:
        """Wait for the next Event; None when it is time to end."""
        with self._changed:
            while not self._waiting and self._stop_at_s == math.inf:
                self._changed.wait()
            if not self._waiting or time.monotonic() >= self._stop_at_s:
                return None
            namespace = next(iter(self._waiting))
            bodies = self._waiting.pop(namespace)
            body = bodies.popleft()
            if bodies:
                self._waiting[namespace] = bodies  # behind the others
            return body

    def _create(self, body: Json) -> None:
        about, reason = body["regarding"].get("name"), body["reason"]
        try:
            self._kube.create(_EVENTS.path(body["metadata"]["namespace"]), body)
        except (ApiError, KubeUnreachable) as error:
            log.warning("event not posted", about=about, reason=reason, error=str(error))
        except Exception:  # whatever one Event says, the others are posted
            log.exception("event not posted", about=about, reason=reason)


class Events:
    """Posts Events about objects of one kind, by way of the process's recorder."""

    def __init__(self, recorder: EventRecorder, api_version: str, kind: str) -> None:
        self._recorder, self._kind = recorder, {"apiVersion": api_version, "kind": kind}

    def post(self, metadata: Json, reason: str, note: str, type_: Type = "Normal") -> None:
        """Post one Event about the object with this metadata."""
        own = {key: metadata.get(key) for key in ("namespace", "name", "uid")}
        self._recorder.post(self._kind | own, reason, note, type_)


def _event(reporter: str, regarding: Json, reason: str, note: str, type_: Type) -> Json:
    # Events about cluster-scoped objects belong into this namespace.
    namespace = regarding.get("namespace", "default")
    name = regarding.get("name", "")[:_NAME].rstrip(".-")
    return {
        "metadata": {"name": f"{name}.{time.time_ns():x}", "namespace": namespace},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": f"surgekit.dev/{reporter}",
        "reportingInstance": f"{reporter}-{socket.gethostname()}"[:128],
        "action": reason,
        "reason": reason,
        "note": note,
        "type": type_,
        "regarding": regarding,
    }
