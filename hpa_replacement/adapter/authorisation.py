"""May they: every request is put to the API server as a SubjectAccessReview, and its answer remembered.

The kube-apiserver has authorised what it passes on already; asking again keeps the answer right for
whoever calls directly. A question that gets no answer is a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpa_replacement.adapter.authentication import Identity
from hpa_replacement.adapter.expiring import Expiring
from hpa_replacement.adapter.refusal import Refusal
from surgekit.kube.client import ApiError, Kube, KubeUnreachable

__all__ = ["Asked", "Authoriser", "review"]

_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALLOWED_AT_MOST, _DENIED_AT_MOST = 20_000, 2_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for: a resource, or (with `path`) something that is none, such as discovery."""

    verb: str
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} path {self.path!r}"
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return (
            f"{self.verb} resource {what!r} in API group {self.group!r} in the namespace {self.namespace!r}"
        )


def review(who: Identity, asked: Asked) -> dict[str, Any]:
    """The SubjectAccessReview to ask."""
    spec: dict[str, Any] = {
        "user": who.name,
        "uid": who.uid,
        "groups": list(who.groups),
        "extra": {key: list(values) for key, values in who.extra},
    }
    if asked.path:
        spec["nonResourceAttributes"] = {"path": asked.path, "verb": asked.verb}
    else:
        fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
        spec["resourceAttributes"] = {field: getattr(asked, field) for field in fields}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


class Authoriser:
    def __init__(self, kube: Kube, allowed_for_s: float, denied_for_s: float) -> None:
        self._kube, self._allowed_for_s, self._denied_for_s = kube, allowed_for_s, denied_for_s
        self._allowed: Expiring[tuple[Identity, Asked], bool] = Expiring(_ALLOWED_AT_MOST)
        # Apart: whoever asks for what they may not have must not push out what others may.
        self._denied: Expiring[tuple[Identity, Asked], str] = Expiring(_DENIED_AT_MOST)

    def check(self, who: Identity, asked: Asked, now_s: float) -> None:
        """Raises a Refusal unless the API server says, or said a moment ago, that they may."""
        key = (who, asked)
        if self._allowed.get(key, now_s):
            return
        refused = self._denied.get(key, now_s)
        if refused is None:
            if not (refused := self._ask(who, asked)):
                self._allowed.put(key, True, now_s + self._allowed_for_s)
                return
            self._denied.put(key, refused, now_s + self._denied_for_s)
        raise Refusal(403, refused)

    def _ask(self, who: Identity, asked: Asked) -> str:
        """Empty if allowed, else why not."""
        try:
            status = self._kube.create(_PATH, review(who, asked))["status"]
        except KubeUnreachable as error:
            raise Refusal(503, "the API server, which knows who may do what, cannot be reached") from error
        except ApiError as error:
            raise Refusal(500, f"the API server would not say who may do what: {error}") from error
        if status.get("allowed") is True and not status.get("denied"):
            return ""
        reason = status.get("reason") or status.get("evaluationError") or ""
        return f"User {who.name!r} cannot {asked}" + (f": {reason}" if reason else "")
