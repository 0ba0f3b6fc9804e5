"""Authorises every request by a SubjectAccessReview, and caches the API server's answers.

The kube-apiserver has already authorised the requests it forwards; direct callers are authorised only here.
Without an answer the request is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hpa_replacement.adapter.expiring import Expiring
from hpa_replacement.adapter.refusal import Refusal
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.token_review import Identity

__all__ = ["AccessRequest", "Authoriser", "review"]

_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ALLOWED_AT_MOST, _DENIED_AT_MOST = 20_000, 2_000


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Access to a resource, or (with `path`) to a non-resource path such as discovery."""

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


def review(user: Identity, access: AccessRequest) -> dict[str, Any]:
    """Build the SubjectAccessReview."""
    spec: dict[str, Any] = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
    if access.path:
        spec["nonResourceAttributes"] = {"path": access.path, "verb": access.verb}
    else:
        fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
        spec["resourceAttributes"] = {field: getattr(access, field) for field in fields}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


class Authoriser:
    def __init__(self, kube: Kube, allowed_for_s: float, denied_for_s: float) -> None:
        self._kube, self._allowed_for_s, self._denied_for_s = kube, allowed_for_s, denied_for_s
        self._allowed: Expiring[tuple[Identity, AccessRequest], bool] = Expiring(_ALLOWED_AT_MOST)
        # Kept apart, so that refused requests do not evict allowed ones.
        self._denied: Expiring[tuple[Identity, AccessRequest], str] = Expiring(_DENIED_AT_MOST)

    def check(self, user: Identity, access: AccessRequest, now_s: float) -> None:
        """Raises a Refusal unless the API server allows it, or did so a moment ago."""
        key = (user, access)
        if self._allowed.get(key, now_s):
            return
        refused = self._denied.get(key, now_s)
        if refused is None:
            if not (refused := self._review(user, access)):
                self._allowed.put(key, True, now_s + self._allowed_for_s)
                return
            self._denied.put(key, refused, now_s + self._denied_for_s)
        raise Refusal(403, refused)

    def _review(self, user: Identity, access: AccessRequest) -> str:
        """Why it is refused; empty if it is allowed."""
        try:
            status = self._kube.create(_PATH, review(user, access))["status"]
        except KubeUnreachable as error:
            raise Refusal(503, "the API server cannot be reached to authorise the request") from error
        except ApiError as error:
            raise Refusal(500, f"the API server refused to authorise the request: {error}") from error
        if status.get("allowed") is True and not status.get("denied"):
            return ""
        reason = status.get("reason") or status.get("evaluationError") or ""
        return f"User {user.name!r} cannot {access}" + (f": {reason}" if reason else "")
