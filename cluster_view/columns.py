"""What the terminal's tables show of each row, and by what they are sorted. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cluster_view.model import Decision, Function, Node

__all__ = [
    "DECISIONS", "FUNCTIONS", "NODES", "Column", "matches", "of_decision", "of_function", "of_node", "order",
]  # fmt: skip

Row = TypeVar("Row")
_GIB = float(1 << 30)


@dataclass(frozen=True)
class Column(Generic[Row]):
    title: str
    cell: Callable[[Row], str]
    by: Callable[[Row], str | float]  # unknown is less than any number


def _text(title: str, read: Callable[[Row], str | None]) -> Column[Row]:
    return Column(title, lambda row: read(row) or "-", lambda row: read(row) or "")


def _number(title: str, read: Callable[[Row], float | None], form: str) -> Column[Row]:
    def cell(row: Row) -> str:
        return "-" if (value := read(row)) is None else format(value, form)

    def by(row: Row) -> float:
        return -1.0 if (value := read(row)) is None else value

    return Column(title, cell, by)


def _state(node: Node) -> str:
    if not node["ready"]:
        return "not ready"
    return "ready" if node["schedulable"] else "cordoned"


def _share(title: str, resource: str, unit: float) -> Column[Node]:
    def cell(node: Node) -> str:
        of = node["cpu"] if resource == "cpu" else node["memory"]
        return f"{of['requested'] / unit:.1f}/{of['allocatable'] / unit:.1f}"

    def by(node: Node) -> float:
        of = node["cpu"] if resource == "cpu" else node["memory"]
        return of["requested"] / of["allocatable"] if of["allocatable"] else -1.0

    return Column(title, cell, by)


NODES: tuple[Column[Node], ...] = (
    _text("node", lambda node: node["name"]),
    _text("state", _state),
    _text("type", lambda node: node["instance_type"]),
    _text("zone", lambda node: node["zone"]),
    _number("$/hour", lambda node: node["usd_per_hour"], ".4f"),
    _share("cpu", "cpu", 1.0),
    _share("GiB", "memory", _GIB),
    _number("pods", lambda node: node["pods"], "d"),
    _number("creating", lambda node: node["creating"], "d"),
    _number("creation s", lambda node: node["creation_s"], ".2f"),
    _number("speed", lambda node: node["relative_speed"], ".2f"),
    _text("rented by", lambda node: node["rented_by"]),
)


def _tracks(function: Function) -> str | None:
    tracks = function["tracks"]
    return tracks and f"{tracks['regular']:g} + {tracks['emergency']:g}"


def _limits(function: Function) -> str | None:
    limits = function["limits"]
    return limits and f"{limits['cpu']:g} cores {limits['memory'] / _GIB:.1f} GiB"


def _conditions(function: Function) -> str:
    return ", ".join(condition["reason"] for condition in function["conditions"])


FUNCTIONS: tuple[Column[Function], ...] = (
    _text("function", lambda function: function["key"]),
    _text("mode", lambda function: function["mode"]),
    _number("ready", lambda function: function["replicas"]["ready"], "d"),
    _number("desired", lambda function: function["replicas"]["desired"], "d"),
    _number("knee", lambda function: function["knee"], "d"),
    _text("regular + emergency", _tracks),
    _text("limits", _limits),
    _text("conditions", _conditions),
    _text("last decision", lambda function: next((d["sentence"] for d in function["decisions"]), None)),
)


def _about(decision: Decision) -> str:
    of = decision["object"]
    return "/".join(filter(None, (of["kind"], of["namespace"], of["name"])))


def _differs(decision: Decision) -> str | None:
    """What a shadow decision would have changed."""
    if (of := decision["would_differ"]) is None:
        return None
    said = [] if of["seconds"] is None else [f"{of['seconds']:+.2f} s"]
    said += [] if of["usd_per_hour"] is None else [f"{of['usd_per_hour']:+.4f} $/hour"]
    return ", ".join(said)


DECISIONS: tuple[Column[Decision], ...] = (
    Column("at", lambda decision: decision["at"][11:19], lambda decision: decision["at"]),
    _text("part", lambda decision: decision["part"]),
    _text("about", _about),
    _text("mode", lambda decision: decision["mode"]),
    _text("would differ", _differs),
    _text("decision", lambda decision: decision["sentence"]),
)


def of_node(node: Node) -> str:
    """What there is no room for in its row."""
    return "; ".join(node["why"])


def of_function(function: Function) -> str:
    said = [f"{c['type']}: {c['message']}" for c in function["conditions"] if c["message"]]
    return "; ".join([*(d["sentence"] for d in function["decisions"][:1]), *said])


def of_decision(decision: Decision) -> str:
    return decision["sentence"]


def matches(row: Row, columns: tuple[Column[Row], ...], wanted: str) -> bool:
    """Whether all words are in its cells."""
    said = " ".join(column.cell(row) for column in columns).lower()
    return all(word in said for word in wanted.lower().split())


def order(
    rows: Mapping[str, Row], columns: tuple[Column[Row], ...], by: int, descending: bool, wanted: str
) -> list[str]:
    """The keys of the rows to show, in order; rows that are equal by name."""
    shown = sorted(key for key, row in rows.items() if not wanted or matches(row, columns, wanted))
    return sorted(shown, key=lambda key: columns[by].by(rows[key]), reverse=descending)
