"""Text that tenants wrote, made fit to show: bounded, and without characters that act on a terminal."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime

from surgekit.kube.conditions import stamp

__all__ = ["LONGEST", "at_s", "iso", "plain"]

LONGEST = 500
_PLAIN = re.compile(r"[ -~]*")
# Years that every reader of ISO 8601 knows: 2000 to 2100.
_FIRST_S, _LAST_S = 946_684_800.0, 4_102_444_800.0


def plain(value: object, longest: int = LONGEST) -> str:
    """Any value as one line of text.

    Characters that act on a terminal, or reorder or hide what stands beside them, become U+FFFD.
    """
    text = value if isinstance(value, str) else "" if value is None else f"{value!r:.{longest}}"
    cut = text if len(text) <= longest else f"{text[: longest - 1]}…"
    if _PLAIN.fullmatch(cut):
        return cut
    return "".join(c if _is_shown(c) else "\ufffd" for c in cut.replace("\n", " "))


def _is_shown(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) == "Zs"


def iso(seconds: float) -> str:
    """Of a Unix time."""
    return stamp(seconds)


def at_s(value: object) -> float | None:
    """The Unix time that an API object says; None if it says none, or one that no clock shows."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        found = datetime.fromisoformat(value)
        seconds = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if _FIRST_S <= seconds <= _LAST_S else None
