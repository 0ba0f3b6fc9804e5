"""How an agent's token travels: in the metadata of its call, as in HTTP."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["metadata_of", "token_in"]

_KEY, _SCHEME = "authorization", "Bearer "


def metadata_of(token: str) -> tuple[tuple[str, str], ...]:
    return ((_KEY, _SCHEME + token),) if token else ()


def token_in(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The token; empty if there is none, or more than one."""
    found = [value for key, value in metadata if key == _KEY]
    said = found[0] if len(found) == 1 else ""
    return said.removeprefix(_SCHEME) if isinstance(said, str) and said.startswith(_SCHEME) else ""
