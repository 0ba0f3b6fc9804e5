"""The errors whose message is for the user. Everything else is a bug and shows its traceback."""

from __future__ import annotations

__all__ = ["UserError"]


class UserError(Exception):
    """The message says what is wrong and what to do about it."""
