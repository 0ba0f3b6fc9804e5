"""The nodes a request offers, without reading more of them than is needed.

kube-scheduler names hundreds of nodes with every pod; making a string of each, only to ask for a few,
is most of the work of an answer. So the names stay the JSON text they came as, and a node is looked for
in it by its quoted name: node names are RFC 1123 subdomains, which JSON writes as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["NamesInJson", "NamesListed", "Offer", "OfferError"]

_names = msgspec.json.Decoder(list[str]).decode


class OfferError(ValueError):
    """Not a list of names."""


class NamesInJson:
    """A JSON array of names."""

    def __init__(self, text: bytes) -> None:
        if not text.startswith(b"["):
            raise OfferError("NodeNames: expected a list of strings")
        self._text = text

    def __contains__(self, name: object) -> bool:
        return f'"{name}"'.encode() in self._text

    def __len__(self) -> int:
        return self._text.count(b'"') // 2

    def names(self) -> Sequence[str]:
        try:
            return _names(self._text)
        except msgspec.MsgspecError as error:
            raise OfferError(f"NodeNames: {error}") from error


class NamesListed:
    """Names already read, from whole nodes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names, self._set = names, frozenset(names)

    def __contains__(self, name: object) -> bool:
        return name in self._set

    def __len__(self) -> int:
        return len(self._names)

    def names(self) -> Sequence[str]:
        return self._names


Offer = NamesInJson | NamesListed
