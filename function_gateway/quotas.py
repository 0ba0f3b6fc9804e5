"""Which functions get a backend when there are more functions than backends. Pure.

Backends are shared fairly among namespaces (max-min): a namespace gets what it wants while that is no more
than an equal share, and what is left over goes to the others; never more than its quota.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from function_gateway.endpoints import Function

__all__ = ["Admitted", "Refusals", "admit", "shares"]

_AGAIN_S = 60.0  # after which an owner is told again


@dataclass(frozen=True)
class Admitted:
    functions: tuple[Function, ...]
    without: Mapping[Function, str]  # functions past their namespace's share, and why


def shares(wanted: Mapping[str, int], total: int, most: int) -> dict[str, int]:
    """Of `total`, by namespace; `most` is what one may have."""
    given: dict[str, int] = {}
    modest_first = sorted(wanted, key=lambda namespace: (min(wanted[namespace], most), namespace))
    for position, namespace in enumerate(modest_first):
        equal = (total - sum(given.values())) // (len(modest_first) - position)
        given[namespace] = min(wanted[namespace], most, equal)
    return given


def admit(functions: Iterable[Function], served: Collection[str], total: int, most: int) -> Admitted:
    """Functions whose host is `served` already keep their place before others of their namespace."""
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
    """Requests refused by namespace, as HAProxy counts them; which of it is news."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[int, float]] = {}  # the count then, and when

    def grown(self, refused: Mapping[str, int], now_s: float) -> dict[str, int]:
        """How many more, by namespace, since its owner was told; not more often than once a minute."""
        news: dict[str, int] = {}
        for namespace, count in refused.items():
            before, at_s = self._told.get(namespace, (0, -_AGAIN_S))
            more = count - before if count >= before else count  # HAProxy was started anew
            if more and now_s - at_s >= _AGAIN_S:
                news[namespace] = more
                self._told[namespace] = (count, now_s)
        return news
