"""Paths of the API server, built from checked parts: no string of a tenant can lead to another object.

A path is built from a `Resource`, never written together from text. Each part is checked against the grammar
that Kubernetes has for it, so that it needs no encoding. `checked` is what the client asks of every path,
wherever it comes from.
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
# No segment is empty or begins with a dot; nothing is there to be decoded, or to end the path.
_PATH = re.compile(r"(?:/[A-Za-z0-9_:~-][A-Za-z0-9._:~-]*)+")
_LONGEST_LABEL, _LONGEST_NAME = 63, 253


class InvalidPath(UserError, ValueError):
    """A part of a path is not what Kubernetes allows there. Nothing was sent."""


def is_name(text: str) -> bool:
    """Whether an object may be called so (DNS-1123 subdomain)."""
    return len(text) <= _LONGEST_NAME and bool(_NAME.fullmatch(text))


def is_namespace(text: str) -> bool:
    """Whether a namespace may be called so (DNS-1123 label)."""
    return len(text) <= _LONGEST_LABEL and bool(_NAMESPACE.fullmatch(text))


def is_api_version(text: str) -> bool:
    """Whether it is `version` or `group/version`."""
    group, _, version = text.rpartition("/")
    short = len(group) <= _LONGEST_NAME and len(version) <= _LONGEST_LABEL
    return short and bool(_API_VERSION.fullmatch(text))


def is_kind(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and bool(_KIND.fullmatch(text))


@dataclass(frozen=True, slots=True)
class Resource:
    """A collection that the API server serves, such as Resource("apps/v1", "deployments")."""

    api_version: str
    plural: str

    def __post_init__(self) -> None:
        _demand(is_api_version(self.api_version), "apiVersion", self.api_version)
        _demand(_is_word(self.plural), "resource", self.plural)

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The collection, of one namespace where it is named; an object of it; a subresource of that."""
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
    """Where the resources of a group and version are listed."""
    _demand(is_api_version(api_version), "apiVersion", api_version)
    return f"/{'apis' if '/' in api_version else 'api'}/{api_version}"


def checked(path: str) -> str:
    """`path`, if it is a plain one: no dot segments, empty segments, escapes, query, fragment."""
    if not _PATH.fullmatch(path):
        raise InvalidPath(f"path: {path[:300]!r} is no plain path of the API server")
    return path


def _is_word(text: str) -> bool:
    return len(text) <= _LONGEST_LABEL and bool(_WORD.fullmatch(text))


def _demand(holds: bool, what: str, is_: str | None) -> None:
    if not holds:
        raise InvalidPath(f"{what}: {str(is_)[:300]!r} is not valid in Kubernetes")
