"""The page of a lab with the real extender and scheduler, under the account that may only look."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from cluster_view.model import Snapshot, apply
from cluster_view.server import Page, serve
from cluster_view.settings import Settings
from kwok import parts
from kwok.lab import Lab
from kwok.pods import create_pods, wait_for_account
from surgekit.cli.cluster_view import open_view
from tests.browser import quiet_page
from tests.cluster_view import objects
from tests.cluster_view.test_server import Stream

pytestmark = pytest.mark.lab
PLACEMENT = "surgekit.dev/placement"
_BUSY_MS = 60_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Lab]:
    with Lab.temporary("view", instant_pods=True) as lab:
        parts.install(lab)
        parts.install_kneescale(lab)
        lab.add_nodes(3)
        entry = parts.start_extender(lab).scheduler_entry(parts.WEIGHT) | {"httpTimeout": "30s"}
        lab.start_scheduler({"extenders": [entry]})
        yield lab


@pytest.fixture(scope="module")
def page(cluster: Lab) -> Iterator[Page]:
    running = serve(open_view(Settings(), cluster.name, None, None), "127.0.0.1:0")
    yield running
    running.stop()


class Reader:
    """What a browser knows: a snapshot and the changes since."""

    def __init__(self, page: Page) -> None:
        self._stream = Stream(int(page.url.rstrip("/").rpartition(":")[2]))
        kind, snapshot = self._stream.next()
        assert kind == "state"
        self.now: Snapshot = snapshot  # type: ignore[assignment]
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                kind, data = self._stream.next()
            except (AssertionError, OSError, ValueError):  # closed
                return
            self.now = data if kind == "state" else apply(self.now, data)  # type: ignore[assignment, arg-type]

    def close(self) -> None:
        self._stream.shut()
        self._thread.join()
        self._stream.close()


@pytest.fixture
def reader(page: Page) -> Iterator[Reader]:
    made = Reader(page)
    yield made
    made.close()


@pytest.fixture
def namespace(cluster: Lab, request: pytest.FixtureRequest) -> Callable[[str], str]:
    def make(mode: str) -> str:
        name = f"{request.node.name.replace('_', '-')[:40]}-{mode}"
        metadata = {"name": name, "labels": {PLACEMENT: mode}}
        cluster.kube.create("/api/v1/namespaces", {"metadata": metadata})
        wait_for_account(cluster.kube, name)
        return name

    return make


def test_a_pod_appears_with_the_reason_for_its_place(
    cluster: Lab, reader: Reader, namespace: Callable[[str], str], record_property: Any
) -> None:
    cluster.wait_for(lambda: len(reader.now["nodes"]) == 3, "nodes on the page")
    name = namespace("enforce")
    began_s = time.monotonic()
    create_pods(cluster.kube, name, 1, "100m", "64Mi")
    key = f"{name}/pod-00000"

    def has_reason() -> bool:
        return any("the scheduler was told" in why for why in reader.now["pods"][key]["why"])

    cluster.wait_for(has_reason, "the pod with its reason")
    record_property("seconds", time.monotonic() - began_s)
    pod = reader.now["pods"][key]
    assert pod["node"] in reader.now["nodes"]
    cluster.wait_for(lambda: reader.now["pods"][key]["phase"] == "Ready", "the pod Ready")
    (decision,) = [d for d in reader.now["decisions"] if d["object"]["namespace"] == name]
    assert (decision["part"], decision["mode"]) == ("scheduler_extender", "enforce")
    assert decision["would_differ"] is None
    cluster.kube.delete(f"/api/v1/namespaces/{name}/pods/pod-00000", gracePeriodSeconds=0)
    cluster.wait_for(lambda: key not in reader.now["pods"], "the pod gone")


def test_a_shadow_decision_says_what_would_differ(
    cluster: Lab, reader: Reader, namespace: Callable[[str], str]
) -> None:
    name = namespace("shadow")
    create_pods(cluster.kube, name, 3, "100m", "64Mi")

    def told() -> bool:
        return len([d for d in reader.now["decisions"] if d["object"]["namespace"] == name]) == 3

    cluster.wait_for(told, "three decisions")
    for decision in reader.now["decisions"]:
        if decision["object"]["namespace"] == name:
            assert decision["mode"] == "shadow"
            assert "would have been chosen" in decision["sentence"]
            differs = decision["would_differ"]
            assert differs is not None
            assert differs["seconds"] is not None


def test_a_click_on_a_pod_names_the_losers(cluster: Lab, page: Page, namespace: Callable[[str], str]) -> None:
    name = namespace("enforce")
    create_pods(cluster.kube, name, 1, "100m", "64Mi")

    def ask() -> Any:
        # S310: the URL is our own page's.
        with urllib.request.urlopen(f"{page.url}explain/pod/{name}/pod-00000", timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    cluster.wait_for(partial(_answers, ask), "an explanation")
    said = ask()
    assert len(said["nodes"]) == 3
    assert said["nodes"][0]["lost_by"] == 0.0
    assert [node["rank"] for node in said["nodes"]] == [1, 2, 3]


def test_a_person_sees_a_pod_come_and_who_lost(
    browser: Browser, cluster: Lab, page: Page, namespace: Callable[[str], str], record_property: Any
) -> None:
    name = namespace("enforce")
    with quiet_page(browser, network=True) as tab:
        tab.goto(f"{page.url}#pod={name}/pod-00000")
        panel = tab.get_by_role("complementary")
        expect(panel).to_contain_text("This pod is not there", timeout=_BUSY_MS)
        began_s = time.monotonic()
        create_pods(cluster.kube, name, 1, "100m", "64Mi")
        expect(panel).to_contain_text("the scheduler was told", timeout=_BUSY_MS)
        record_property("seconds", time.monotonic() - began_s)  # under 2 on a quiet machine
        losers = panel.get_by_role("table", name="Nodes by cost").get_by_role("row")
        expect(losers).to_have_count(1 + 3, timeout=_BUSY_MS)
        expect(losers.nth(1)).to_contain_text("chosen")


def _answers(ask: Callable[[], Any]) -> bool:
    try:
        return bool(ask())
    except urllib.error.HTTPError:
        return False


def test_a_status_and_an_event_of_a_policy_become_decisions(
    cluster: Lab, reader: Reader, namespace: Callable[[str], str]
) -> None:
    name = namespace("off")
    policy = objects.knee_policy("web")
    policy["metadata"] = {"name": "web", "namespace": name}
    policy["spec"]["maxReplicas"] = 10
    path = f"/apis/surgekit.dev/v1alpha1/namespaces/{name}/kneepolicies"
    made = cluster.kube.create(path, policy)
    conditions = [{"lastTransitionTime": "2026-01-01T00:00:00Z", **c} for c in policy["status"]["conditions"]]
    status = {"status": policy["status"] | {"conditions": conditions}}
    cluster.kube.patch(f"{path}/web/status", status)
    key = f"KneePolicy/{name}/web"
    cluster.wait_for(lambda: reader.now["functions"][key]["knee"] == 6, "the policy's knee")
    cluster.kube.create(
        f"/apis/events.k8s.io/v1/namespaces/{name}/events",
        {
            "metadata": {"name": "web.1", "namespace": name},
            "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "surgekit.dev/kneescale",
            "reportingInstance": "test",
            "action": "NoData",
            "reason": "NoData",
            "note": "no <b>sample</b>",
            "type": "Warning",
            "regarding": {
                "kind": "KneePolicy",
                "namespace": name,
                "name": "web",
                "uid": made["metadata"]["uid"],
            },
        },
    )

    def both() -> bool:
        said = {d["sentence"] for d in reader.now["functions"][key]["decisions"]}
        return said == {"4 replicas, 6 wanted: the knee is at 6", "NoData: no <b>sample</b>"}

    cluster.wait_for(both, "both decisions")
