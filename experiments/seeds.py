"""Which seeds are for what, and the option `--seeds A-B` of benches that draw at random.

Nobody who tunes a policy looks at a figure of a reported seed.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

__all__ = ["REPORTED", "SWEEP", "TUNING", "Seeds", "parse_seeds"]

TUNING = range(1001)  # policies and their constants are chosen on these
SWEEP = range(1001, 2001)  # each baseline's best setting is found on these
REPORTED = range(2001, 3001)  # figures are taken on these
_MOST = 10_000

Seeds = Annotated[
    str | None,
    typer.Option(metavar="A-B", help="Draw with these seeds (as 7001-7020) instead of the reported ones."),
]


def parse_seeds(text: str) -> range:
    """`5` or `5-9`, both ends included."""
    found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not first <= last < first + _MOST:
        raise typer.BadParameter(
            f"{text!r} is not A-B with A <= B and at most {_MOST} seeds", param_hint="--seeds"
        )
    return range(first, last + 1)
