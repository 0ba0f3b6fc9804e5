"""Finds out which user sent a request: the one the front proxy names, or the owner of a bearer token.

The kube-apiserver authenticates users and forwards requests with their names in X-Remote-* headers. These
headers count only from a peer whose certificate is signed by the request-header CA and has an allowed common
name; both are in the ConfigMap extension-apiserver-authentication. From other peers they are ignored.
Direct callers (Prometheus) send a token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import structlog

from hpa_replacement.adapter.expiring import Expiring
from hpa_replacement.adapter.refusal import Refusal
from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.table import Seen, Table, Unreadable
from surgekit.kube.token_review import Identity, review_token
from surgekit.kube.watch import Watch
from surgekit.tls.files import write_atomically

__all__ = [
    "CONFIG_MAP",
    "FrontProxy",
    "FrontProxyError",
    "FrontProxyRules",
    "TokenReviews",
    "forwarded",
    "read_rules",
]

log = structlog.get_logger(__name__)
Json = dict[str, Any]
Headers = Sequence[tuple[str, str]]
CONFIG_MAP = "extension-apiserver-authentication"
_CONFIG_MAPS = Resource("v1", "configmaps")
_TOKEN_S = 10.0  # as long as k8s.io/apiserver caches a TokenReview (DelegatingAuthenticationOptions)
_TOKENS_AT_MOST = 1000
# k8s.io/apiserver adds this group to every authenticated user, and the aggregator relies on it: it reads
# discovery and OpenAPI as users without groups, and only this group may read /apis.
_AUTHENTICATED = "system:authenticated"
_EVERYBODY = {_AUTHENTICATED, "system:unauthenticated"}


class FrontProxyError(Exception):
    """The ConfigMap is incomplete or invalid; the message names the key."""


@dataclass(frozen=True)
class FrontProxyRules:
    """Which peers are trusted, and which headers name the user."""

    ca_pem: str
    allowed_names: frozenset[str]  # empty: any name the CA signed, as for kube-apiserver's flag
    username_headers: tuple[str, ...]
    uid_headers: tuple[str, ...]
    group_headers: tuple[str, ...]
    extra_prefixes: tuple[str, ...]

    def trusts(self, peer: str | None) -> bool:
        """`peer` is the common name of a certificate whose signature has been verified."""
        return peer is not None and (not self.allowed_names or peer in self.allowed_names)


def read_rules(data: Mapping[str, str]) -> FrontProxyRules:
    """Read the ConfigMap's data, which kube-apiserver fills from its --requestheader-* flags."""
    ca_pem = data.get("requestheader-client-ca-file", "")
    if "BEGIN CERTIFICATE" not in ca_pem:
        raise FrontProxyError(
            f"ConfigMap kube-system/{CONFIG_MAP} has no certificate under requestheader-client-ca-file: "
            "is kube-apiserver's --requestheader-client-ca-file set?"
        )
    usernames = _names(data, "requestheader-username-headers")
    if not usernames:
        raise FrontProxyError(f"ConfigMap kube-system/{CONFIG_MAP}: requestheader-username-headers is empty")
    return FrontProxyRules(
        ca_pem,
        frozenset(_names(data, "requestheader-allowed-names")),
        tuple(map(str.lower, usernames)),
        tuple(map(str.lower, _names(data, "requestheader-uid-headers"))),
        tuple(map(str.lower, _names(data, "requestheader-group-headers"))),
        tuple(map(str.lower, _names(data, "requestheader-extra-headers-prefix"))),
    )


def _names(data: Mapping[str, str], key: str) -> list[str]:
    text = data.get(key, "[]")
    try:
        names = orjson.loads(text)
    except orjson.JSONDecodeError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FrontProxyError(f"ConfigMap kube-system/{CONFIG_MAP}: {key}: {text!r} is not a list of names")
    return names


def forwarded(rules: FrontProxyRules, headers: Headers) -> Identity | None:
    """The user a trusted peer names; None if it names none. Repeated headers are repeated values:
    joined by commas, a group with a comma in its name would become two."""
    try:
        decoded = [(name.lower(), value.encode("latin-1").decode()) for name, value in headers]
    except UnicodeError:
        return None
    user = _first(decoded, rules.username_headers)
    if not user:
        return None
    groups = tuple(value for name in rules.group_headers for key, value in decoded if key == name)
    if not _EVERYBODY.intersection(groups):
        groups += (_AUTHENTICATED,)
    extra: dict[str, list[str]] = {}
    for prefix in rules.extra_prefixes:
        for key, value in decoded:
            if key.startswith(prefix):
                extra.setdefault(unquote(key.removeprefix(prefix)), []).append(value)
    return Identity(
        user,
        _first(decoded, rules.uid_headers),
        groups,
        tuple((k, tuple(v)) for k, v in sorted(extra.items())),
    )


def _first(decoded: Headers, names: Sequence[str]) -> str:
    return next((value for name in names for key, value in decoded if key == name and value), "")


class FrontProxy(Table[FrontProxyRules]):
    """Watches the ConfigMap. Writes the CA to a file, which the TLS context reloads."""

    def __init__(self, kube: Kube, unreadable: Unreadable, ca_file: Path) -> None:
        super().__init__(unreadable)
        self._kube, self._ca_file = kube, ca_file
        self._watch = Watch(
            kube, _CONFIG_MAPS.path("kube-system"), self, fieldSelector=f"metadata.name={CONFIG_MAP}"
        )
        self.rules: FrontProxyRules | None = None  # None until `load`: no peer is trusted

    def load(self) -> None:
        """Read the ConfigMap for the first time; raises, since without it no peer can be trusted."""
        self._take(self.read(self._kube.get(_CONFIG_MAPS.path("kube-system", CONFIG_MAP))))

    def start(self) -> None:
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()

    # If the ConfigMap is deleted or invalid, keep the last one: kube-apiserver restores it within a minute.

    def read(self, obj: Json) -> FrontProxyRules:
        return read_rules(obj.get("data") or {})

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:
        pass

    def put(self, obj: Seen, says: FrontProxyRules, arrival_s: float) -> None:  # noqa: ARG002
        self._take(says)

    def drop(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        log.error("front proxy ConfigMap deleted, keeping its last content")

    def cannot_read(self, obj: Seen, arrival_s: float) -> None:  # noqa: ARG002
        log.error("front proxy ConfigMap invalid, keeping its last content")

    def _take(self, rules: FrontProxyRules) -> None:
        if self.rules is None or rules.ca_pem != self.rules.ca_pem:
            write_atomically(self._ca_file, rules.ca_pem.encode(), 0o644)
        self.rules = rules


class TokenReviews:
    """Asks the API server for the owner of a bearer token."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._owners: Expiring[bytes, Identity] = Expiring(_TOKENS_AT_MOST)
        # Kept apart, so that invalid tokens do not evict valid ones.
        self._refused: Expiring[bytes, str] = Expiring(_TOKENS_AT_MOST)

    def owner(self, token: str, now_s: float) -> Identity:
        """Raises a Refusal if the token is not valid."""
        key = hashlib.sha256(token.encode()).digest()
        found: Identity | str | None = self._owners.get(key, now_s) or self._refused.get(key, now_s)
        if found is None:
            found = self._review(token)
            if isinstance(found, str):
                self._refused.put(key, found, now_s + _TOKEN_S)
            else:
                self._owners.put(key, found, now_s + _TOKEN_S)
        if isinstance(found, str):
            raise Refusal(401, found)
        return found

    def _review(self, token: str) -> Identity | str:
        try:
            found = review_token(self._kube, token)
        except KubeUnreachable as error:
            raise Refusal(503, "the API server cannot be reached to review the token") from error
        except ApiError as error:
            raise Refusal(500, f"the API server refused to review the token: {error}") from error
        return found or "the bearer token is not valid"
