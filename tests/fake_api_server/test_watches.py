"""Watches: changes in order, bookmarks, versions that are gone. On the fake API server and the real one."""

from __future__ import annotations

import pytest

from tests.etcd import compact_etcd
from tests.fake_api_server import FakeApiServer
from tests.fake_api_server.both import Api, refusal


def test_a_watch_tells_what_came_after_its_version(api: Api) -> None:
    path = api.path("configmaps")
    api.config_map("before")
    _, version = api.kube.list_all(path)
    api.config_map("a", labels={"tier": "web"})
    api.kube.patch(api.path("configmaps", "a"), {"data": {"x": "1"}})
    api.kube.patch(api.path("configmaps", "a"), {"metadata": {"labels": {"tier": "base"}}})
    api.kube.patch(api.path("configmaps", "before"), {"metadata": {"labels": {"tier": "web"}}})
    api.kube.delete(api.path("configmaps", "before"))
    modified = ("MODIFIED", "a")
    assert api.events(path, version) == [
        ("ADDED", "a"), modified, modified, ("MODIFIED", "before"), ("DELETED", "before"),
    ]  # fmt: skip
    assert api.events(path, version, labelSelector="tier=web") == [
        ("ADDED", "a"), modified, ("DELETED", "a"), ("ADDED", "before"), ("DELETED", "before"),
    ]  # fmt: skip
    assert api.events(path, version, fieldSelector="metadata.name=a") == [("ADDED", "a"), modified, modified]


def test_a_watch_ends_with_a_bookmark(api: Api) -> None:
    path = api.path("configmaps")
    _, version = api.kube.list_all(path)
    made = api.config_map("a")
    for _ in range(5):  # the real API server may send more than one bookmark, and on busy cores none
        told = api.watch(path, version, real_timeout_s=4, allowWatchBookmarks=True)  # 2 s before the end
        added, *bookmarks = told
        if bookmarks:
            break
    assert (added["type"], added["object"]) == ("ADDED", made)
    assert {event["type"] for event in bookmarks} == {"BOOKMARK"}
    last = bookmarks[-1]["object"]["metadata"]["resourceVersion"]
    assert int(last) >= int(made["metadata"]["resourceVersion"])


def test_versions_before_a_compaction_are_gone(api: Api, request: pytest.FixtureRequest) -> None:
    # Events: the one resource that the real API server does not keep in its watch cache.
    for name in "abc":
        about = {"kind": "Pod", "namespace": api.namespace, "name": name}
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m"}
        api.kube.create(api.path("events"), body)
    page = api.kube.get(api.path("events"), limit=1)
    last = [api.config_map(name) for name in "ab"][-1]["metadata"]["resourceVersion"]
    if isinstance(api.kube, FakeApiServer):
        api.kube.compact()
    else:
        compact_etcd(request.getfixturevalue("lab"), last)
    (event,) = api.watch(api.path("events"), page["metadata"]["resourceVersion"])
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    token = {"continue": page["metadata"]["continue"]}
    assert refusal(lambda: api.kube.get(api.path("events"), limit=1, **token)) == (410, "Expired")
