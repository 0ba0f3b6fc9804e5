"""The pods of all functions as last seen, by their owner. Own writes count at once, before the watch tells.

Newer is decided by resourceVersion, which the API server lets clients compare (KEP-5504).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from scheduler_extender.function_pods.pod import FunctionPod, read

__all__ = ["PodTable"]

Json = dict[str, Any]


class PodTable:
    """Of pods that one of `kinds` owns. Owned by one thread."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self._kinds = kinds
        self._of: dict[str, dict[str, FunctionPod]] = defaultdict(dict)  # owner's uid -> pod's uid -> pod
        self._owner: dict[str, str] = {}  # pod's uid -> owner's uid
        self._versions: dict[str, int] = {}
        self._gone: dict[str, int] = {}  # deleted, not told of by the watch yet

    def is_old(self, obj: Json) -> bool:
        """Whether something newer is known of it."""
        uid = obj["metadata"]["uid"]
        return uid in self._gone or _version(obj) < self._versions.get(uid, 0)

    def put(self, obj: Json) -> str:
        """The owner whose pod changed; empty: nobody's, or nothing that matters did."""
        metadata = obj["metadata"]
        owner, uid = self._owner_of(metadata), metadata["uid"]
        if not owner or self.is_old(obj):
            return ""
        version = _version(obj)
        known = self._of[owner].get(uid)
        self._versions[uid], self._owner[uid] = version, owner
        self._of[owner][uid] = pod = read(obj)
        return owner if pod != known else ""

    def drop(self, uid: str, seen: bool) -> str:
        """`seen` by the watch; else by the answer to our deletion: the watch may still tell older news."""
        if seen:
            self._gone.pop(uid, None)
        elif uid in self._versions:
            self._gone[uid] = self._versions[uid]
        self._versions.pop(uid, None)
        owner = self._owner.pop(uid, "")
        if owner:
            self._of[owner].pop(uid, None)
            if not self._of[owner]:
                del self._of[owner]
        return owner

    def keep_only(self, uids: set[str]) -> set[str]:
        """After a whole list: what is not in it is gone. The owners of what went."""
        self._gone.clear()
        return {self.drop(uid, seen=True) for uid in self._owner.keys() - uids}

    def of(self, owner_uid: str) -> list[FunctionPod]:
        return sorted(self._of.get(owner_uid, {}).values(), key=lambda pod: pod.name)

    def _owner_of(self, metadata: Json) -> str:
        for reference in metadata.get("ownerReferences") or ():
            ours = str(reference.get("apiVersion")).startswith("surgekit.dev/")
            if ours and reference.get("controller") and reference.get("kind") in self._kinds:
                return str(reference["uid"])
        return ""


def _version(obj: Json) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)
