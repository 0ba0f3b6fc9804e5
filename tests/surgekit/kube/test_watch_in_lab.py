"""The watch against the real API server, with a fault proxy in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kwok.lab import Lab
from surgekit.kube import client, watch
from surgekit.kube.watch import Watch
from tests.etcd import compact_etcd
from tests.fault_proxy import FaultProxy, cut_at, fault_proxy, silence_at, tls_dial, wait_until
from tests.surgekit.kube.recording import Picture

pytestmark = pytest.mark.lab

WATCHES = "watch=true"
Begin = Callable[[str], Picture]


@pytest.fixture
def proxy(lab: Lab) -> Iterator[FaultProxy]:
    with fault_proxy(tls_dial(lab.kube)) as proxy:
        yield proxy


@pytest.fixture
def begin(proxy: FaultProxy) -> Iterator[Begin]:
    """Starts a watch of a path through the proxy."""
    with ExitStack() as stack:

        def start(path: str) -> Picture:
            picture = Picture()
            picture.watch = Watch(proxy.kube(), path, picture).start()
            stack.callback(picture.watch.stop)
            wait_until(picture.watch.synced.is_set, "the first list")
            wait_until(lambda: proxy.count(WATCHES), "the first watch")
            return picture

        yield start


@pytest.fixture
def secrets(lab: Lab, namespace: str) -> str:
    """The path of a collection with objects `a` and `b`."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    for name in "ab":
        lab.kube.create(path, {"metadata": {"name": name}})
    return path


def change_all(lab: Lab, path: str) -> None:
    """One object goes, one changes, one comes."""
    lab.kube.delete(f"{path}/a")
    lab.kube.patch(f"{path}/b", {"metadata": {"labels": {"changed": "yes"}}})
    lab.kube.create(path, {"metadata": {"name": "c"}})


CHANGES = [("DELETED", "a"), ("MODIFIED", "b"), ("ADDED", "c")]


def test_after_a_real_compaction_the_list_shows_what_is_gone(
    lab: Lab, namespace: str, proxy: FaultProxy, begin: Begin
) -> None:
    # Events: the one resource that the API server does not keep in a watch cache, so that etcd decides.
    path = f"/api/v1/namespaces/{namespace}/events"

    def post(name: str) -> None:
        about = {"kind": "Pod", "namespace": namespace, "name": name}
        lab.kube.create(path, {"metadata": {"name": name}, "involvedObject": about, "reason": "R"})

    post("a")
    post("b")
    picture = begin(path)
    assert picture.names == ["a", "b"]
    proxy.down = True
    proxy.cut()
    lab.kube.delete(f"{path}/a")
    post("c")
    compact_etcd(lab, lab.kube.list_all(path)[1])
    proxy.heal()
    wait_until(lambda: picture.names == ["b", "c"], "a new list")
    assert picture.lists == 2, "the first watch since is answered 410 Gone"
    assert picture.changes == [], "the deletion is known by the list alone"
    post("d")
    wait_until(lambda: picture.names == ["b", "c", "d"], "the watch goes on")


def test_a_line_cut_in_half_is_told_whole_and_once(
    lab: Lab, secrets: str, proxy: FaultProxy, begin: Begin
) -> None:
    proxy.inject(cut_at(b'"name":"b"'), only=WATCHES, times=2)
    picture = begin(secrets)
    change_all(lab, secrets)
    wait_until(lambda: len(picture.changes) >= 3, "the changes")
    assert picture.changes == CHANGES
    assert picture.lists == 1
    assert proxy.count(WATCHES) >= 3, "twice cut, and begun again"
    found, _ = lab.kube.list_all(secrets)
    assert picture.objects == {obj["metadata"]["name"]: obj for obj in found}


def test_a_dead_connection_is_noticed_when_the_watch_should_have_ended(
    lab: Lab, secrets: str, proxy: FaultProxy, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_WATCH_S", 2)
    monkeypatch.setattr(client, "_WATCH_GRACE_S", 1.0)
    proxy.inject(silence_at(b'"name":"a"'), only=WATCHES)
    picture = begin(secrets)
    change_all(lab, secrets)
    wait_until(lambda: len(picture.changes) >= 3, "the changes")
    assert picture.changes == CHANGES
    assert picture.lists == 1
    assert proxy.count(WATCHES) >= 2, "the silent one was given up"


def test_bookmarks_carry_a_quiet_watch_on(
    lab: Lab, secrets: str, proxy: FaultProxy, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_WATCH_S", 4)  # the API server sends one 2 s before the end
    picture = begin(secrets)
    elsewhere = secrets.replace("/secrets", "/configmaps")
    made = lab.kube.create(elsewhere, {"metadata": {"name": "elsewhere"}})
    wait_until(lambda: proxy.count(WATCHES) >= 2, "the second watch")
    first, second = [int(t.partition("resourceVersion=")[2].partition("&")[0]) for t in proxy.targets[-2:]]
    assert first < int(made["metadata"]["resourceVersion"]) <= second
    assert (picture.lists, picture.changes) == (1, [])
    assert picture.watch.age_s(time.monotonic()) < 4.0


def test_the_age_tells_that_it_is_cut_off(lab: Lab, secrets: str, proxy: FaultProxy, begin: Begin) -> None:
    picture = begin(secrets)
    proxy.down = True
    proxy.cut()
    change_all(lab, secrets)
    time.sleep(1.0)
    assert picture.watch.age_s(time.monotonic()) >= 1.0
    assert picture.changes == []
    proxy.heal()
    wait_until(lambda: len(picture.changes) >= 3, "the changes")
    wait_until(lambda: picture.watch.age_s(time.monotonic()) < 1.0, "it is up to date")
    assert picture.changes == CHANGES
