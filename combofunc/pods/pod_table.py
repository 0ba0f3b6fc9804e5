"""The pods of all functions by owner, as last seen. Our own writes count before the watch shows them.

The higher resourceVersion is newer; the API server lets clients compare them (KEP-5504).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from typing import Any

from combofunc.pods.ownership import Owner, owner_of
from combofunc.pods.pod import FunctionPod, read

__all__ = ["PodTable"]

Json = dict[str, Any]


class PodTable:
    """Pods that name a ComboFunc or an InPlaceDeployment as their controller. Owned by one thread."""

    def __init__(self) -> None:
        self._of: dict[Owner, dict[str, FunctionPod]] = defaultdict(dict)  # by owner and pod's uid
        self._unread: dict[Owner, dict[str, str]] = defaultdict(dict)  # names by owner and pod's uid
        self._owner: dict[str, Owner] = {}  # by pod's uid
        self._versions: dict[str, int] = {}
        self._gone: dict[str, int] = {}  # deleted by us; the watch has not shown it yet

    def is_old(self, obj: Json) -> bool:
        """Whether a newer version of the pod is known."""
        uid = obj["metadata"]["uid"]
        return uid in self._gone or _version(obj) < self._versions.get(uid, 0)

    def put(self, obj: Json) -> str:
        """Returns the uid of the owner to reconcile; empty if the pod has none or did not change."""
        metadata = obj["metadata"]
        owner, uid = owner_of(metadata), metadata["uid"]
        if owner is None or self.is_old(obj):
            return ""
        pod, version = read(obj), _version(obj)
        known = self._of[owner].get(uid)
        was_unread = self._unread.get(owner, {}).pop(uid, "")
        self._versions[uid], self._owner[uid] = version, owner
        self._of[owner][uid] = pod
        return owner.uid if pod != known or was_unread else ""

    def put_unread(self, obj: Json) -> str:
        """Note a pod that exists and cannot be read. Returns the uid of its owner, if it names one."""
        metadata = obj["metadata"]
        owner, uid = owner_of(metadata), metadata["uid"]
        if owner is None or uid in self._gone:
            return ""
        self._owner[uid] = owner
        self._unread[owner][uid] = metadata["name"]
        return owner.uid

    def drop(self, uid: str, seen: bool) -> str:
        """`seen`: the watch showed the deletion. Otherwise we deleted it, and the watch may still show it."""
        if seen:
            self._gone.pop(uid, None)
        elif uid in self._versions:
            self._gone[uid] = self._versions[uid]
        self._versions.pop(uid, None)
        owner = self._owner.pop(uid, None)
        if owner is None:
            return ""
        for pods in (self._of, self._unread):
            pods[owner].pop(uid, None)
            if not pods[owner]:
                del pods[owner]
        return owner.uid

    def keep_only(self, uids: Set[str]) -> set[str]:
        """Drop all other pods, after a full list. Returns the uids of their owners."""
        self._gone.clear()
        return {self.drop(uid, seen=True) for uid in self._owner.keys() - uids}

    def of(self, namespace: str, uid: str) -> list[FunctionPod]:
        """The owner's pods. Pods in other namespaces that claim this owner do not count."""
        return sorted(self._of.get(Owner(namespace, uid), {}).values(), key=lambda pod: pod.name)

    def unread(self, namespace: str, uid: str) -> list[str]:
        """Names of the owner's pods that exist and cannot be read."""
        return sorted(self._unread.get(Owner(namespace, uid), {}).values())


def _version(obj: Json) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)
