"""The watch against an API server behind a fault proxy: whatever breaks, the picture becomes right again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace

import orjson
import pytest
from kubernetes.client import Configuration

from surgekit.kube import client, watch
from surgekit.kube.client import Kube
from surgekit.kube.watch import Watch, overdue
from tests.fake_api_server import FakeApiServer, Json
from tests.fake_api_server.over_http import serve
from tests.fault_proxy import (
    Fault,
    FaultProxy,
    answer,
    close,
    cut_at,
    delay,
    drip,
    fault_proxy,
    plain_dial,
    silence,
    silence_at,
    stream,
    wait_until,
)
from tests.surgekit.kube.recording import Picture

MAPS = "/api/v1/namespaces/shop/configmaps"
WATCHES, LISTS = "watch=true", "limit=500"


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundredth of the usual waits; silence is noticed after 1.2 s."""
    monkeypatch.setattr(watch, "_BACKOFF_S", (0.002, 0.005, 0.01, 0.02, 0.05))
    monkeypatch.setattr(watch, "_ABSENT_S", 0.02)
    monkeypatch.setattr(watch, "_WATCH_S", 1)
    monkeypatch.setattr(client, "_WATCH_GRACE_S", 0.2)
    monkeypatch.setattr(client, "_READ_S", 1.0)


@pytest.fixture
def fake() -> FakeApiServer:
    return FakeApiServer(config_map("a"), config_map("b"))


@pytest.fixture
def proxy(fake: FakeApiServer) -> Iterator[FaultProxy]:
    with serve(fake) as address, fault_proxy(plain_dial(address)) as proxy:
        yield proxy


@pytest.fixture
def picture(proxy: FaultProxy) -> Iterator[Picture]:
    """What a watch that has just begun shows."""
    picture = Picture()
    picture.watch = Watch(proxy.kube(), MAPS, picture).start()
    wait_until(lambda: picture.names == ["a", "b"], "the first list")
    wait_until(lambda: proxy.count(WATCHES), "the first watch")
    yield picture
    picture.watch.stop()


def config_map(name: str, **data: str) -> Json:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def change_all(fake: FakeApiServer) -> None:
    """One object goes, one changes, one comes."""
    fake.delete(f"{MAPS}/a")
    fake.patch(f"{MAPS}/b", {"data": {"changed": "yes"}})
    fake.create(MAPS, config_map("c"))


def is_right(picture: Picture, fake: FakeApiServer) -> bool:
    return picture.objects == {obj["metadata"]["name"]: obj for obj in fake.objects("configmaps")}


def test_changes_arrive_in_order_and_once(picture: Picture, fake: FakeApiServer, proxy: FaultProxy) -> None:
    change_all(fake)
    wait_until(lambda: len(picture.changes) == 3, "three changes")
    assert picture.changes == [("DELETED", "a"), ("MODIFIED", "b"), ("ADDED", "c")]
    wait_until(lambda: proxy.count(WATCHES) >= 3, "watches that follow")
    assert len(picture.changes) == 3, "a watch resumes after the last change"
    assert (picture.lists, proxy.count(LISTS)) == (1, 1)
    assert is_right(picture, fake)


@pytest.mark.parametrize("code", [401, 403, 410, 429, 500, 503])
@pytest.mark.parametrize("only", [WATCHES, LISTS])
def test_an_error_answer_makes_it_list_again(
    picture: Picture, fake: FakeApiServer, proxy: FaultProxy, code: int, only: str
) -> None:
    """So that what was deleted meanwhile is known to be gone."""
    fault = answer(code, "Reason", "message")
    if only == LISTS:
        proxy.inject(fault, only=LISTS, times=3)
        proxy.cut(answer(410, "Expired", "too old"), only=WATCHES)
    else:
        proxy.cut(fault, only=only, times=3)
    change_all(fake)
    wait_until(lambda: picture.lists >= 2 and is_right(picture, fake), "a new list")


def test_after_a_compaction_it_lists_again(picture: Picture, fake: FakeApiServer, proxy: FaultProxy) -> None:
    proxy.down = True
    fake.cut_watches()
    change_all(fake)
    fake.compact()
    proxy.heal()
    wait_until(lambda: is_right(picture, fake), "a new list")
    assert (picture.lists, picture.changes) == (2, []), "deletions become known by the list"


def test_pages_that_a_compaction_takes_away_are_listed_anew(fake: FakeApiServer, proxy: FaultProxy) -> None:
    fake.add(*(config_map(f"m{i}") for i in range(600)))
    proxy.inject(answer(410, "Expired", "The provided continue parameter is too old"), only="continue=")
    picture = Picture()
    started = Watch(proxy.kube(), MAPS, picture).start()
    wait_until(lambda: is_right(picture, fake), "all pages")
    started.stop()
    assert picture.lists == 1, "half a list is never shown"


def test_a_server_that_says_gone_again_and_again_is_not_overrun(
    picture: Picture, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_BACKOFF_S", (0.2,))
    proxy.cut(answer(410, "Expired", "too old"), only=WATCHES, times=1000)
    began = proxy.count(LISTS)
    time.sleep(1.0)
    assert proxy.count(LISTS) - began <= 12


def test_a_server_that_ends_watches_at_once_is_not_overrun_nor_believed(
    picture: Picture, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_BACKOFF_S", (0.2,))
    proxy.cut(stream(), only=WATCHES, times=1000)
    wait_until(lambda: proxy.count(WATCHES) >= 3, "watches that end at once")
    began, contact_s = proxy.count(WATCHES), picture.watch._last_contact_s
    time.sleep(1.0)
    assert proxy.count(WATCHES) - began <= 12
    assert picture.watch._last_contact_s == contact_s


@pytest.mark.parametrize(
    "fault", [close, cut_at(b'"name":"b"'), cut_at(b"HTTP/1.1"), delay(0.3), drip(0.0002)],
    ids=["closed", "half a line", "no answer", "late", "dripping"],
)  # fmt: skip
def test_a_broken_watch_resumes_where_it_was(
    picture: Picture, fake: FakeApiServer, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.cut(fault, only=WATCHES, times=2)
    change_all(fake)
    wait_until(lambda: is_right(picture, fake), "the changes")
    assert picture.changes == [("DELETED", "a"), ("MODIFIED", "b"), ("ADDED", "c")], "none twice, none lost"
    assert picture.lists == 1


def test_no_change_is_told_twice(picture: Picture, fake: FakeApiServer, proxy: FaultProxy) -> None:
    """A second time an old state would come after a newer one."""
    wait_until(lambda: proxy.count(WATCHES) >= 2, "a watch that did not begin with a list")
    for i in range(5):
        fake.patch(f"{MAPS}/b", {"data": {"round": str(i)}})
        wait_until(lambda i=i: picture.objects["b"]["data"] == {"round": str(i)}, "the change")  # type: ignore[misc]
        proxy.cut()
    fake.create(MAPS, config_map("c"))
    wait_until(lambda: "c" in picture.names, "the last change")
    assert picture.changes == [("MODIFIED", "b")] * 5 + [("ADDED", "c")]


@pytest.mark.parametrize("garbage", [b"not json\n", b"[]\n", b"{}\n", b'{"type": "ADDED", "object": {}}\n'])
def test_lines_that_are_no_events_make_it_list_again(
    picture: Picture, fake: FakeApiServer, proxy: FaultProxy, garbage: bytes
) -> None:
    proxy.cut(stream(garbage), only=WATCHES)
    change_all(fake)
    wait_until(lambda: is_right(picture, fake), "a new list")


@pytest.mark.parametrize("fault", [silence, silence_at(b'"name":"b"')], ids=["from the start", "in a line"])
def test_a_connection_that_died_in_silence_is_noticed(
    picture: Picture, fake: FakeApiServer, proxy: FaultProxy, fault: Fault
) -> None:
    proxy.cut(fault, only=WATCHES)
    asked = proxy.count(WATCHES)
    wait_until(lambda: proxy.count(WATCHES) > asked, "the silent watch")
    change_all(fake)
    assert not is_right(picture, fake)
    wait_until(lambda: is_right(picture, fake), "the changes", timeout_s=5.0)
    assert picture.lists == 1


def test_the_age_grows_while_cut_off_and_recovers(
    picture: Picture, fake: FakeApiServer, proxy: FaultProxy
) -> None:
    proxy.down = True
    proxy.cut()
    contact_s = picture.watch._last_contact_s
    time.sleep(0.5)
    assert picture.watch._last_contact_s == contact_s
    assert picture.watch.age_s(time.monotonic()) >= 0.5
    proxy.heal()
    fake.create(MAPS, config_map("c"))
    wait_until(lambda: "c" in picture.names, "the change")
    assert picture.watch.age_s(time.monotonic()) < 0.5


def test_bookmarks_confirm_the_picture_and_are_not_passed_on(
    picture: Picture, fake: FakeApiServer, proxy: FaultProxy
) -> None:
    fake.add({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop"}})
    version = fake.list_all(MAPS)[1]
    wait_until(lambda: proxy.count(WATCHES) >= 2, "the second watch")
    assert f"resourceVersion={version}" in proxy.targets[-1], "the next watch begins at the bookmark"
    fake.compact()
    wait_until(lambda: proxy.count(WATCHES) >= 4, "further watches")
    assert (picture.lists, picture.changes) == (1, [])
    assert picture.watch.age_s(time.monotonic()) < 2.0


def test_a_consumer_that_raises_is_told_everything_again(
    picture: Picture, fake: FakeApiServer, proxy: FaultProxy
) -> None:
    picture.raise_for("apply")
    fake.create(MAPS, config_map("c"))
    wait_until(lambda: picture.lists == 2 and is_right(picture, fake), "a new list")
    picture.raise_for("replace", times=3)
    proxy.cut(answer(410, "Expired", "too old"), only=WATCHES)
    fake.delete(f"{MAPS}/a")
    wait_until(lambda: picture.lists == 3 and is_right(picture, fake), "a list that is taken")


def test_a_gathering_watch_tells_the_same(fake: FakeApiServer, proxy: FaultProxy) -> None:
    picture = Picture()
    started = Watch(proxy.kube(), MAPS, picture, gather_s=0.05).start()
    wait_until(lambda: proxy.count(WATCHES), "the watch")
    proxy.cut(cut_at(b'"name":"b"'), only=WATCHES)
    change_all(fake)
    for i in range(50):
        fake.patch(f"{MAPS}/b", {"data": {"round": str(i)}})
    wait_until(lambda: len(picture.changes) == 53, "all changes")
    assert is_right(picture, fake)
    assert (picture.lists, picture.changes[2:]) == (1, [("ADDED", "c")] + [("MODIFIED", "b")] * 50)
    started.stop()


def test_a_gathering_watch_rests_between_reads_not_before_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a silence. Then it reads for a quarter of its rest, 5 ms; each of these batches takes it 2 ms."""
    did: list[str] = []
    now_s = 100.0

    def wait(seconds: float) -> None:
        nonlocal now_s
        did.append("rests")
        now_s += seconds

    def batches(*_: object, **__: object) -> Iterator[list[bytes]]:
        nonlocal now_s
        now_s += 1.0
        for number in range(8):
            did.append("reads")
            metadata = {"name": f"m{number}", "resourceVersion": str(number)}
            yield [orjson.dumps({"type": "ADDED", "object": {"metadata": metadata}})]
            now_s += 0.002

    picture = Picture()
    watching = Watch(kube := Kube(Configuration()), MAPS, picture, gather_s=0.02)
    monkeypatch.setattr(kube, "stream", batches)
    monkeypatch.setattr(watching._stopping, "wait", wait)
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: now_s))
    watching._watch()
    assert did == ["reads", "rests", *["reads"] * 3, "rests", *["reads"] * 3, "rests", "reads"]
    assert len(picture.changes) == 8


def test_before_the_first_list_nothing_is_known(fake: FakeApiServer, proxy: FaultProxy) -> None:
    proxy.down = True
    picture = Picture()
    started = Watch(proxy.kube(), MAPS, picture).start()
    time.sleep(0.1)
    assert started.age_s(time.monotonic()) == float("inf")
    assert not started.synced.is_set()
    assert picture.lists == 0
    proxy.heal()
    assert started.synced.wait(10.0)
    assert is_right(picture, fake)
    started.stop()


def test_a_collection_that_may_be_absent_is_looked_for_and_never_forgotten(
    fake: FakeApiServer, proxy: FaultProxy
) -> None:
    picture = Picture()
    proxy.cut(answer(404, "NotFound", "no such resource"), only=LISTS, times=1000)
    started = Watch(proxy.kube(), MAPS, picture, may_be_absent=True).start()
    assert started.synced.wait(10.0)
    assert started.age_s(time.monotonic()) < 10.0
    assert picture.lists == 0
    proxy.heal()
    wait_until(lambda: is_right(picture, fake), "the CRD is there")
    proxy.cut(answer(404, "NotFound", "not yet"), only="", times=3)
    wait_until(lambda: picture.lists == 2 and is_right(picture, fake), "and again")
    assert picture.names == ["a", "b"]
    started.stop()


def test_selectors_go_with_lists_and_watches(fake: FakeApiServer, proxy: FaultProxy) -> None:
    picture = Picture()
    started = Watch(proxy.kube(), MAPS, picture, labelSelector="tier=web").start()
    wait_until(lambda: proxy.count(WATCHES), "the watch")
    assert picture.names == []
    fake.patch(f"{MAPS}/a", {"metadata": {"labels": {"tier": "web"}}})
    wait_until(lambda: picture.names == ["a"], "what begins to match")
    fake.patch(f"{MAPS}/a", {"metadata": {"labels": None}})
    wait_until(lambda: picture.names == [], "what no longer matches")
    started.stop()


def test_a_stopped_watch_tells_nothing_more(picture: Picture, fake: FakeApiServer) -> None:
    picture.watch.stop()
    change_all(fake)
    picture.watch._thread.join(timeout=10.0)
    assert not picture.watch._thread.is_alive()
    assert picture.changes == []


def test_the_overdue_one_is_named() -> None:
    ages_s = {"nodes": 1.0, "pods": 61.2}
    assert overdue(ages_s, 60.0) == "no word of pods for 61 s"
    assert overdue(ages_s, 62.0) == ""
