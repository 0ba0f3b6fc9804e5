"""Asks the API server whose a token is (TokenReview)."""

from __future__ import annotations

from dataclasses import dataclass

from surgekit.kube.api_path import Resource
from surgekit.kube.client import Kube

__all__ = ["Identity", "review_token"]

_REVIEWS = Resource("authentication.k8s.io/v1", "tokenreviews")


@dataclass(frozen=True)
class Identity:
    """A user, with the fields of a SubjectAccessReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def extra_of(self, key: str) -> tuple[str, ...]:
        return next((values for name, values in self.extra if name == key), ())


def review_token(kube: Kube, token: str, audience: str = "") -> Identity | None:
    """Return the token's owner, or None if the token is not valid. Raise ApiError or KubeUnreachable.

    `audience`: whom the token must be for; empty: the API server.
    """
    spec: dict[str, object] = {"token": token}
    if audience:
        spec["audiences"] = [audience]
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    status = kube.create(_REVIEWS.path(), body)["status"]
    # An authenticator that knows no audiences answers without them: then the token is the API server's.
    if not status.get("authenticated") or (audience and audience not in (status.get("audiences") or ())):
        return None
    user = status["user"]
    extra = tuple((key, tuple(values)) for key, values in sorted((user.get("extra") or {}).items()))
    return Identity(user["username"], user.get("uid", ""), tuple(user.get("groups") or ()), extra)
