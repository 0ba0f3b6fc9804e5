"""One object that cannot be read: skipped, counted, named in an Event; it still counts as there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from surgekit.kube.client import Kube
from surgekit.kube.table import ObjectTable, Seen, Table, Unreadable
from tests.fake_api_server import FakeApiServer

Json = dict[str, Any]


def wait_for_events(kube: FakeApiServer, count: int) -> list[Json]:
    """They are posted by a thread of their own."""
    deadline_s = time.monotonic() + 90
    while len(found := kube.objects("events")) < count:
        assert time.monotonic() < deadline_s, f"{len(found)} of {count} Events"
        time.sleep(0.01)
    return found


class Numbers(Table[int]):
    """Objects that are to have a number."""

    def __init__(self, kube: Kube) -> None:
        self.unreadable = Unreadable(kube, "numbers")
        super().__init__(self.unreadable)
        self.known: dict[str, int] = {}
        self.told: list[str] = []

    def read(self, obj: Json) -> int:
        return int(obj["number"])

    def keep(self, there: Sequence[Seen], arrival_s: float) -> None:
        for gone in self.known.keys() - {obj.name for obj in there}:
            del self.known[gone]

    def put(self, obj: Seen, says: int, arrival_s: float) -> None:
        if says == 13:
            raise KeyError("thirteen")
        self.known[obj.name] = says

    def drop(self, obj: Seen, arrival_s: float) -> None:
        self.known.pop(obj.name, None)

    def cannot_read(self, obj: Seen, arrival_s: float) -> None:
        self.told.append(obj.name)


def obj(name: str, number: Any, namespace: str | None = "shop") -> Json:
    metadata = {"name": name, "uid": f"uid-{name}"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": "Number", "metadata": metadata, "number": number}


LONG = "9" * 5000  # int() refuses it


def test_a_bad_object_stops_no_other_and_still_counts_as_there() -> None:
    table = Numbers(FakeApiServer())
    table.replace([obj("a", 1), obj("b", 2), obj("c", 3)], 0.0)
    table.replace([obj("a", 1), obj("b", LONG), obj("d", None), obj("e", 5)], 1.0)
    assert table.known == {"a": 1, "b": 2, "e": 5}, "what was known of b stands; c alone is gone"
    assert table.told == ["b", "d"]
    table.apply("MODIFIED", obj("a", "x"), 2.0)
    assert table.known["a"] == 1
    table.apply("MODIFIED", obj("a", 7), 3.0)
    table.apply("DELETED", obj("b", LONG), 3.0)
    assert table.known == {"a": 7, "e": 5}


def test_what_is_read_well_and_cannot_be_taken_in_is_no_different() -> None:
    table = Numbers(FakeApiServer())
    table.replace([obj("a", 1), obj("b", 13), obj("c", 3)], 0.0)
    assert table.known == {"a": 1, "c": 3}
    assert table.unreadable.count() == {"Number": 1}


def test_what_is_no_object_at_all_is_passed_over() -> None:
    table = Numbers(FakeApiServer())
    junk: list[Any] = [None, 5, [], {}, {"metadata": None}, {"metadata": {"name": 5, "uid": "u"}}]
    table.replace([*junk, obj("a", 1)], 0.0)
    for one in junk:
        table.apply("MODIFIED", one, 1.0)
        table.apply("DELETED", one, 1.0)
    assert table.known == {"a": 1}


def test_those_there_are_are_counted() -> None:
    table, registry = Numbers(FakeApiServer()), CollectorRegistry()
    registry.register(table.unreadable)
    table.replace([obj(name, LONG) for name in "abcd"], 0.0)
    assert b'surgekit_numbers_unreadable_objects{kind="Number"} 4.0' in generate_latest(registry)
    table.apply("MODIFIED", obj("a", 1), 1.0)  # mended
    table.apply("DELETED", obj("b", LONG), 1.0)
    table.replace([obj("a", 1), obj("d", LONG)], 2.0)  # c is gone
    assert table.unreadable.count() == {"Number": 1}


def test_each_is_named_in_one_event() -> None:
    kube = FakeApiServer()
    table = Numbers(kube)
    for arrival_s in range(5):
        table.replace([obj("a", LONG), obj("b", {}, namespace=None)], arrival_s)
        table.apply("MODIFIED", obj("a", LONG + "9"), arrival_s)
    about_a, about_b = sorted(wait_for_events(kube, 2), key=lambda event: str(event["regarding"]["name"]))
    assert about_a["regarding"] == {
        "apiVersion": "v1", "kind": "Number", "namespace": "shop", "name": "a", "uid": "uid-a",
    }  # fmt: skip
    assert (about_a["reason"], about_a["type"]) == ("Unreadable", "Warning")
    assert "surgekit's numbers leaves it out because it cannot be read: ValueError" in about_a["note"]
    # One in no namespace: as the API server wants it.
    assert about_b["metadata"]["namespace"] == "default"
    assert "namespace" not in about_b["regarding"]
    assert len(kube.objects("events")) == 2


def test_thousands_of_them_are_told_by_a_few() -> None:
    kube = FakeApiServer()
    table = Numbers(kube)
    table.replace([obj(f"n{i}", LONG) for i in range(3000)], 0.0)
    wait_for_events(kube, 10)
    assert table.unreadable.count() == {"Number": 3000}
    assert len(table.unreadable._told) <= 1000
    time.sleep(0.2)
    assert len(kube.objects("events")) == 10


@pytest.mark.parametrize(("key", "prefix"), [("uid", "uid-"), ("name", "")])
def test_an_object_table_passes_changes_on_by_key(key: Literal["uid", "name"], prefix: str) -> None:
    calls: list[tuple[Any, ...]] = []
    table = ObjectTable(
        Unreadable(FakeApiServer(), "numbers"),
        lambda obj: int(obj["number"]),
        on_list=lambda keys: calls.append(("list", set(keys))),
        on_put=lambda key, number, arrival_s: calls.append(("put", key, number, arrival_s)),
        on_drop=lambda key: calls.append(("drop", key)),
        key=key,
    )
    table.replace([obj("a", 1), obj("b", "none")], 0.0)
    table.apply("MODIFIED", obj("a", 2), 1.0)
    table.apply("DELETED", obj("a", 2), 2.0)
    a, b = f"{prefix}a", f"{prefix}b"
    assert calls == [("list", {a, b}), ("put", a, 1, 0.0), ("put", a, 2, 1.0), ("drop", a)]
