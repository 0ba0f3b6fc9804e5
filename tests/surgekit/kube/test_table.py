"""One object that cannot be read: skipped, counted, named in an Event; it still counts as there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from surgekit.kube.client import Kube
from surgekit.kube.table import (
    ObjectTable,
    RowTable,
    Seen,
    Table,
    Unreadable,
    by_full_name,
    by_name,
    by_uid,
)
from tests.events_at_once import EventsAtOnce, unreadable
from tests.fake_api_server import FakeApiServer

Json = dict[str, Any]


def read_number(obj: Json) -> int:
    return int(obj["number"])


class Numbers(Table[int]):
    """Objects that are to have a number."""

    def __init__(self, kube: Kube) -> None:
        self.unreadable = Unreadable(EventsAtOnce(kube, "numbers"))
        super().__init__(self.unreadable)
        self.known: dict[str, int] = {}
        self.told: list[str] = []

    def read(self, obj: Json) -> int:
        return read_number(obj)

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
    about_a, about_b = sorted(kube.objects("events"), key=lambda event: str(event["regarding"]["name"]))
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
    assert table.unreadable.count() == {"Number": 3000}
    assert len(table.unreadable._told) <= 1000
    assert len(kube.objects("events")) == 10


def test_those_of_one_namespace_do_not_silence_the_others() -> None:
    kube = FakeApiServer()
    table = Numbers(kube)
    table.replace([obj(f"n{i}", LONG) for i in range(3000)], 0.0)
    table.apply("ADDED", obj("odd", LONG, "office"), 1.0)
    table.apply("ADDED", obj("cluster-scoped", LONG, None), 1.0)
    told = [event["regarding"].get("namespace", "") for event in kube.objects("events")]
    assert sorted(told) == ["", "office", *["shop"] * 10]


def test_one_that_was_not_told_is_told_with_a_later_change(monkeypatch: pytest.MonkeyPatch) -> None:
    kube, now_s = FakeApiServer(), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    table = Numbers(kube)
    table.replace([obj(f"n{i}", LONG) for i in range(11)], 0.0)
    assert len(kube.objects("events")) == 10
    now_s += 61.0
    for number in range(11):
        table.apply("MODIFIED", obj(f"n{number}", LONG), 1.0)
    told = [event["regarding"]["name"] for event in kube.objects("events")]
    assert sorted(told) == sorted(f"n{i}" for i in range(11)), "each once"


@pytest.mark.parametrize(("key", "prefix"), [(by_uid, "uid-"), (by_name, "")])
def test_an_object_table_passes_changes_on_by_key(key: Callable[[Seen], str], prefix: str) -> None:
    calls: list[tuple[Any, ...]] = []
    table = ObjectTable(
        unreadable(),
        read_number,
        on_list=lambda keys, arrival_s: calls.append(("list", set(keys), arrival_s)),
        on_put=lambda key, number, arrival_s: calls.append(("put", key, number, arrival_s)),
        on_drop=lambda key, arrival_s: calls.append(("drop", key, arrival_s)),
        key=key,
    )
    table.replace([obj("a", 1), obj("b", "none")], 0.0)
    table.apply("MODIFIED", obj("a", 2), 1.0)
    table.apply("DELETED", obj("a", 2), 2.0)
    a, b = f"{prefix}a", f"{prefix}b"
    assert calls == [
        ("list", {a, b}, 0.0), ("put", a, 1, 0.0), ("put", a, 2, 1.0), ("drop", a, 2.0),
    ]  # fmt: skip


def test_the_functions_run_under_the_lock_and_news_is_told_without_it() -> None:
    lock, calls = threading.Lock(), list[str]()

    def call(what: str, answer: object = None) -> object:
        calls.append(what)
        assert lock.locked() is (what != "changed")
        return answer

    table = ObjectTable(
        unreadable(),
        read_number,
        key=by_name,
        on_list=lambda keys, _: call("list"),
        on_put=lambda name, number, _: call("put", number != 0),  # 0: nothing new
        on_drop=lambda name, _: call("drop", name != "unknown"),
        lock=lock,
        on_change=lambda: cast(None, call("changed")),
    )
    said: list[tuple[str, Json, list[str]]] = [
        ("ADDED", obj("a", 1), ["put", "changed"]),
        ("MODIFIED", obj("a", 0), ["put"]),
        ("MODIFIED", obj("a", "x"), ["changed"]),  # it cannot be read any more
        ("DELETED", obj("a", 0), ["drop", "changed"]),
        ("DELETED", obj("unknown", 0), ["drop"]),
    ]
    for kind, told, expected in said:
        calls.clear()
        table.apply(kind, told, 1.0)
        assert calls == expected, (kind, told)
    calls.clear()
    table.replace([obj("a", 0), obj("b", 2)], 2.0)
    assert calls == ["list", "put", "put", "changed"], "once, when all is there"
    calls.clear()
    table.replace([], 3.0)
    assert calls == ["list", "changed"], "that there is nothing is news"


def test_unread_objects_are_those_there_whose_last_version_cannot_be_taken() -> None:
    def put(name: str, number: int, _: float) -> None:
        if number == 13:
            raise KeyError("thirteen")

    table = ObjectTable(
        unreadable(), read_number, key=by_name, on_put=put,
        on_list=lambda keys, _: None, on_drop=lambda name, _: None,
    )  # fmt: skip
    table.replace([obj("a", 1), obj("b", "x"), obj("c", "x"), obj("d", 13)], 0.0)
    assert table.unread == {"uid-b", "uid-c", "uid-d"}
    table.apply("MODIFIED", obj("a", "x"), 1.0)
    table.apply("MODIFIED", obj("b", 2), 1.0)
    table.apply("DELETED", obj("c", "x"), 1.0)
    assert table.unread == {"uid-a", "uid-d"}
    table.replace([obj("a", "y")], 2.0)
    assert table.unread == {"uid-a"}


def test_a_row_table_keeps_what_was_read_by_key() -> None:
    table = RowTable(unreadable(), lambda obj: read_number(obj) or None, key=by_full_name)
    table.replace([obj("a", 1), obj("b", 2), obj("c", 0)], 0.0)
    assert table.rows == {("shop", "a"): 1, ("shop", "b"): 2}, "None is no row"
    table.replace([obj("a", "x"), obj("d", 4)], 1.0)
    assert table.rows == {("shop", "a"): 1, ("shop", "d"): 4}, "what was known of a stands"
    table.apply("MODIFIED", obj("a", 0), 2.0)
    table.apply("DELETED", obj("d", 4), 2.0)
    table.apply("DELETED", obj("e", 4), 2.0)
    assert table.rows == {}
