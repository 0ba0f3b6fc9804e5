"""Tells which extra of the package a failed import needs.

A production image has neither the lab nor the experiments, and `pip install surgekit` brings only what
every part needs. A command that needs more says so in one line.
"""

from __future__ import annotations

import traceback

__all__ = ["extra_for"]

# Modules that come with no other extra. The rest is known by the package that failed to import it.
_LAB_ONLY = {"experiments", "kwok", "matplotlib", "playwright", "pyroute2", "uvloop"}
_EXTRA_BY_PACKAGE = {
    "cluster_autoscaler_hook": "fcma",
    "cluster_view": "view",
    "combofunc": "combofunc",
    "experiments": "lab",
    "hpa_replacement": "kneescale",
    "kwok": "lab",
    "limit_allocator": "escra",
}


def extra_for(error: ModuleNotFoundError) -> str | None:
    """Return the extra to install, or None if the missing module is ours or unknown: that is a bug."""
    missing = (error.name or "").partition(".")[0]
    if missing in _LAB_ONLY:
        return "lab"
    if missing == "surgekit" or missing in _EXTRA_BY_PACKAGE:
        return None
    importers = (frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__))
    packages = (name.partition(".")[0] for name in importers)
    return next((_EXTRA_BY_PACKAGE[name] for name in packages if name in _EXTRA_BY_PACKAGE), None)
