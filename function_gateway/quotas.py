"""Decide which functions get a backend when there are more functions than backends. Pure.

Backends are shared fairly among namespaces (max-min). A namespace gets what it needs up to an equal share;
what others leave over is shared again, up to the quota of a namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from function_gateway.endpoints import Function

__all__ = ["Admitted", "Refusals", "admit", "shares"]

_AGAIN_S = 60.0  # between two notices to the same namespace


@dataclass(frozen=True)
class Admitted:
    functions: tuple[Function, ...]
    without: Mapping[Function, str]  # functions without a backend -> the reason


def shares(wanted: Mapping[str, int], total: int, most: int) -> dict[str, int]:
    """Backends by namespace, of `total` in all and at most `most` for one namespace."""
    given: dict[str, int] = {}
    modest_first = sorted(wanted, key=lambda namespace: (min(wanted[namespace], most), namespace))
    for position, namespace in enumerate(modest_first):
        equal = (total - sum(given.values())) // (len(modest_first) - position)
        given[namespace] = min(wanted[namespace], most, equal)
    return given


def admit(functions: Iterable[Function], served: Collection[str], total: int, most: int) -> Admitted:
    """Share the backends. Within a namespace, functions whose host is in `served` come first."""
    by_namespace: dict[str, list[Function]] = {}
    for function in functions:
        by_namespace.setdefault(function.namespace, []).append(function)
    given = shares({namespace: len(found) for namespace, found in by_namespace.items()}, total, most)
    admitted: list[Function] = []
    without: dict[Function, str] = {}
    for namespace, found in by_namespace.items():
        found.sort(key=lambda function: (function.host not in served, function.name))
        share = given[namespace]
        admitted += found[:share]
        limit = (
            f"the quota of a namespace (functions_per_namespace) is {most}"
            if share == most
            else f"all {total} (functions) are in use, of which its share is {share}"
        )
        why = f"namespace {namespace} has {len(found)} functions; {limit}"
        without |= dict.fromkeys(found[share:], why)
    return Admitted(tuple(admitted), without)


class Refusals:
    """Tracks refused requests by namespace, to notify owners at most once a minute."""

    def __init__(self) -> None:
        self._noticed: dict[str, tuple[int, float]] = {}  # at the last notice: count, time

    def grown(self, refused: Mapping[str, int], now_s: float) -> dict[str, int]:
        """Requests refused since the last notice, for each namespace that is due for one."""
        news: dict[str, int] = {}
        for namespace, count in refused.items():
            before, at_s = self._noticed.get(namespace, (0, -_AGAIN_S))
            more = count - before if count >= before else count  # HAProxy restarted, its counter too
            if more and now_s - at_s >= _AGAIN_S:
                news[namespace] = more
                self._noticed[namespace] = (count, now_s)
        return news
