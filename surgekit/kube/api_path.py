"""Builds paths of the API server from checked parts, so that no tenant's string can lead to another object.

Build a path from a `Resource`, never from text. Each part must match the grammar that Kubernetes has for it,
so that it needs no encoding. The client passes every path through `checked`, wherever it comes from.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from surgekit.errors import UserError

__all__ = [
    "InvalidPath", "Resource", "checked", "group_path",
    "is_api_version", "is_kind", "is_name", "is_namespace",
]  # fmt: skip

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_WORD = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")  # plurals, versions, subresources: DNS-1035 labels
_NAMESPACE, _NAME = re.compile(_LABEL), re.compile(_SUBDOMAIN)
_API_VERSION = re.compile(rf"(?:{_SUBDOMAIN}/)?{_WORD.pattern}")
_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]*[A-Za-z0-9])?")
# No segment is empty or begins with a dot; no character needs decoding or ends the path.
_PATH = re.compile(r"(?:/[A-Za-z0-9_:~-][A-Za-z0-9._:~-]*)+")
_LONGEST_LABEL, _LONGEST_NAME = 63, 253


class InvalidPath(UserError, ValueError):
    """Kubernetes does not allow a part of this path. Nothing was sent."""


def is_name(text: str) -> bool:
    """Whether `text` can name an object (DNS-1123 subdomain)."""
    return len(text) <= _LONGEST_NAME and bool(_NAME.fullmatch(text))


def is_namespace(text: str) -> bool:
    """Whether `text` can name a namespace (DNS-1123 label)."""
    return len(text) <= _LONGEST_LABEL and bool(_NAMESPACE.fullmatch(text))


def is_api_version(text: str) -> bool:
    """Whether `text` is `version` or `group/version`."""
    group, _, version = text.rpartition("/")
    short = len(group) <= _LONGEST_NAME and len(version) <= _LONGEST_LABEL
    return short and bool(_API_VERSION.fullmatch(text))


def is_kind(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and bool(_KIND.fullmatch(text))


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection that the API server serves, for example Resource("apps/v1", "deployments")."""

    api_version: str
    plural: str

    def __post_init__(self) -> None:
        _demand(is_api_version(self.api_version), "apiVersion", self.api_version)
        _demand(_is_word(self.plural), "resource", self.plural)

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Path of the collection (in one namespace if given), of one object in it, or of its subresource."""
        path = group_path(self.api_version)
        if namespace is not None:
            _demand(is_namespace(namespace), "namespace", namespace)
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name is None:
            _demand(subresource is None, "subresource without a name", subresource)
            return path
        _demand(is_name(name), "name", name)
        path += f"/{name}"
        if subresource is not None:
            _demand(_is_word(subresource), "subresource", subresource)
            path += f"/{subresource}"
        return path


def group_path(api_version: str) -> str:
    """Path of the discovery document of a group and version."""
    _demand(is_api_version(api_version), "apiVersion", api_version)
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}"


def checked(path: str) -> str:
    """Return `path` if it has no dot segments, empty segments, escapes, query or fragment; else raise."""
    if not _PATH.fullmatch(path):
        raise InvalidPath(f"path: {path[:300]!r} is no plain path of the API server")
    return path


def _is_word(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and bool(_WORD.fullmatch(text))


def _demand(holds: bool, what: str, is_: str | None) -> None:
    if not holds:
        raise InvalidPath(f"{what}: {str(is_)[:300]!r} is not valid in Kubernetes")
