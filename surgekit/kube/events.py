"""Posts Events on objects we decide about, for `kubectl describe`.

The same Event about the same object is posted once in `REPEAT_S`. A failed post is logged and dropped.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from datetime import UTC, datetime
from typing import Any, Literal

import structlog

from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["REPEAT_S", "Events"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
_EVENTS = Resource("events.k8s.io/v1", "events")
_NOTE_BYTES = 1024  # the API server refuses longer ones
_NAME = 230  # characters of 253; the time takes the rest
REPEAT_S = 300.0
_REMEMBERED = 1000


class Events:
    """Posts Events about objects of one kind."""

    def __init__(self, kube: Kube, reporter: str, api_version: str, kind: str) -> None:
        self._kube, self._reporter = kube, reporter
        self._kind = {"apiVersion": api_version, "kind": kind}
        self._lock = threading.Lock()
        self._posted: dict[tuple[str, ...], float] = {}  # what was said when, the oldest first

    def post(
        self, metadata: Json, reason: str, note: str, type_: Literal["Normal", "Warning"] = "Normal"
    ) -> None:
        """Post one Event about the object with this metadata; `reason` is a word, `note` a sentence."""
        if self._is_repeat(metadata, reason, note):
            return
        # Events about cluster-scoped objects belong into this namespace.
        namespace = metadata.get("namespace") or "default"
        name = metadata["name"][:_NAME].rstrip(".-")
        body = {
            "metadata": {"name": f"{name}.{time.time_ns():x}", "namespace": namespace},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": f"surgekit.dev/{self._reporter}",
            "reportingInstance": f"{self._reporter}-{socket.gethostname()}"[:128],
            "action": reason,
            "reason": reason,
            "note": note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
            "type": type_,
            "regarding": self._kind
            | {key: metadata[key] for key in ("namespace", "name", "uid") if key in metadata},
        }
        try:
            self._kube.create(_EVENTS.path(namespace), body)
        except (ApiError, KubeUnreachable) as error:
            log.warning("event not posted", about=metadata["name"], reason=reason, error=str(error))

    def _is_repeat(self, metadata: Json, reason: str, note: str) -> bool:
        key = (metadata.get("namespace") or "", metadata["name"], metadata.get("uid") or "", reason, note)
        now_s = time.monotonic()
        with self._lock:
            if now_s - self._posted.get(key, -math.inf) < REPEAT_S:
                return True
            self._posted.pop(key, None)  # the newest last
            self._posted[key] = now_s
            while len(self._posted) > _REMEMBERED:
                del self._posted[next(iter(self._posted))]
        return False
