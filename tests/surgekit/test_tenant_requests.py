"""No string in any of our objects makes a controller send a request outside the object's namespace.

The real readers and controllers, with the real client; only the HTTP pool is a recorder.
"""

from __future__ import annotations

import contextlib
import copy
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import orjson
import pytest
import urllib3
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubernetes import client

from combofunc import settings as combofunc_settings
from combofunc.actuator import carry_out
from combofunc.in_place_deployment.reconciler import InPlaceDeploymentReconciler
from combofunc.metrics import ComboFuncMetrics
from combofunc.pods.cluster import Cluster
from combofunc.pods.pod_table import PodTable
from combofunc.reconciler import ComboFuncReconciler, Inputs
from combofunc.work_loop import Work
from hpa_replacement.knative.presence import Observed, RevisionView
from hpa_replacement.knative.reconciliation import Create, Patch, plan
from hpa_replacement.metrics import KneeScaleMetrics
from hpa_replacement.observe.sources import ClusterSource
from hpa_replacement.policy_reconciler import ClusterAccess, PolicyReconciler
from hpa_replacement.settings import Settings
from surgekit.kube.api_path import InvalidPath
from surgekit.kube.client import Kube
from surgekit.kube.scale import NotScalable, Scales
from surgekit.prometheus.client import Labels
from tests.combofunc.function_in_world import combofunc
from tests.combofunc.immediate_desk import AtOnce, Told
from tests.combofunc.in_place_deployment.test_rollout import spec_of
from tests.combofunc.pods.world import node
from tests.events_at_once import EventsAtOnce, unreadable
from tests.hpa_replacement import builders
from tests.hpa_replacement.knative.builders import KNATIVE_S_DEFAULTS, NO_DEMAND, pod_autoscaler

Json = dict[str, Any]
OWN = "shop"
STATUS = f"https://api/apis/surgekit.dev/v1alpha1/namespaces/{OWN}/kneepolicies"
HOSTILE = [
    "../../victim/deployments/web", "../../../../../api/v1/namespaces/victim/pods/web", "..", ".", "a/b",
    "web/../../../victim/pods/x", "%2e%2e/%2e%2e/victim", "a%2fb", "a?b=c", "a#b", "a\r\nX: y", "a\x00b", "",
    " ", "v1/../../apis/apps/v1/namespaces/victim", "\\..\\..\\victim", "victim", "//victim", "..;/victim",
]  # fmt: skip


class ApiServer:
    """In place of urllib3's pool: remembers every request, and answers so that controllers go on."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def request(self, method: str, url: str, body: bytes | None = None, **_: Any) -> urllib3.HTTPResponse:
        self.sent.append((method, url))
        answer: Json = orjson.loads(body) if method == "POST" and body else {}
        if method == "POST":
            answer = Json(metadata={}, spec={}) | answer
            answer["metadata"] = {"uid": "new", "namespace": OWN, "resourceVersion": "1"} | answer["metadata"]
        elif url.endswith("/scale"):
            answer = {"spec": {"replicas": 1}, "status": {"selector": "app=web"}}
        elif method == "GET":
            kinds = ("Deployment", "Scale")
            names = ("deployments", "deployments/scale")
            answer = {"resources": [{"name": n, "kind": k} for n, k in zip(names, kinds, strict=True)]}
        return urllib3.HTTPResponse(BytesIO(orjson.dumps(answer)), status=200, preload_content=False)

    def outside(self, namespace: str) -> list[str]:
        """Requests not of `namespace`, read as a server would that decodes and resolves paths."""
        return [url for method, url in self.sent if not _is_inside(method, url, namespace)]


def _is_inside(method: str, url: str, namespace: str) -> bool:
    parts = urlsplit(url)
    path = posixpath.normpath(unquote(unquote(parts.path)).replace("\\", "/"))
    if parts.netloc != "api" or any(c in url for c in "\r\n\0"):
        return False
    words = path.split("/")[1:]
    group = words[:2] if words[0] == "api" else words[:3]
    rest = words[len(group) :]
    if not rest:
        return method == "GET"  # what the group has
    return rest[:2] == ["namespaces", namespace] and "victim" not in rest[:2] and len(rest) <= 5


def recording() -> tuple[Kube, ApiServer]:
    configuration = client.Configuration()
    configuration.host = "https://api"
    kube, server = Kube(configuration), ApiServer()
    kube._pool = cast(Any, server)
    return kube, server


class One:
    """A Prometheus with one series for each query."""

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        return {frozenset(): 1.0}


def knee_scale(obj: Json) -> ApiServer:
    kube, server = recording()
    source = ClusterSource(kube, unreadable())
    for what, objects in (
        ("kneepolicies", [obj]),
        ("nodes", [builders.node()]),
        ("pods", [builders.pod("web-0")]),
    ):
        source._watches[what]._consumer.replace(objects, time.monotonic())
    cluster = ClusterAccess(kube, source, One(), builders.policy_events(kube))
    reconciler = PolicyReconciler(Settings(), cluster, KneeScaleMetrics(), lambda: True)
    reconciler.reconcile_due(time.time() // 30 * 30 + 1.0)
    reconciler._lanes.wait()
    reconciler.stop()
    return server


def knative(obj: Json) -> ApiServer:
    kube, server = recording()
    scales = Scales(kube)
    view = RevisionView(obj, None, None, Observed(1, 1), NO_DEMAND, KNATIVE_S_DEFAULTS, 1000.0)
    for step in plan(view, 100).action.steps:
        if isinstance(step, Create):
            kube.create(step.path, step.body)
            if step.body["kind"] == "KneePolicy":
                made = copy.deepcopy(step.body)
                made["metadata"] |= {
                    "namespace": obj["metadata"]["namespace"],
                    "uid": "u",
                    "resourceVersion": "1",
                }
                server.sent += knee_scale(made).sent
        elif isinstance(step, Patch):
            kube.patch(step.path, step.body)
        else:
            scales.set(step.target, step.replicas)
    return server


def _carried_out(kube: Kube, work: Work | None) -> None:
    assert work is not None
    for action in work.actions:
        carry_out(kube, work.namespace, action)
    if work.event:
        work.event()
    if work.status:
        kube.patch(*work.status)


def combo_func(obj: Json) -> ApiServer:
    kube, server = recording()
    cluster = Cluster(1.0, 0.1, 2.0, 120.0)
    cluster.put_node(node("node-0"))
    events = EventsAtOnce(kube).about("surgekit.dev/v1alpha1", "ComboFunc")
    inputs, settings = Inputs(cluster, PodTable(), lambda _: 3), combofunc_settings.Settings()
    functions = ComboFuncReconciler(inputs, settings, AtOnce(), ComboFuncMetrics(), events)
    functions.objects["u"] = obj
    _carried_out(kube, functions.reconcile("u", 1000.0))
    return server


def in_place_deployment(obj: Json) -> ApiServer:
    kube, server = recording()
    deployments = InPlaceDeploymentReconciler(PodTable(), 15.0, Told())
    deployments.objects["u"] = obj
    _carried_out(kube, deployments.reconcile("u", 1000.0))
    return server


def _pa() -> Json:
    obj = pod_autoscaler({"min-scale": "2"})
    obj["metadata"]["namespace"] = OWN
    return obj


def _in_place() -> Json:
    metadata = {"name": "web", "namespace": OWN, "uid": "u", "generation": 1}
    return {"metadata": metadata, "spec": spec_of(2)}


PARTS: dict[str, tuple[Callable[[], Json], Callable[[Json], ApiServer], str]] = {
    "KneePolicy": (builders.kneepolicy, knee_scale, "/deployments/web/scale"),
    "PodAutoscaler": (_pa, knative, "/kneepolicies"),
    "ComboFunc": (lambda: combofunc(3), combo_func, "/pods"),
    "InPlaceDeployment": (_in_place, in_place_deployment, "/pods"),
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif isinstance(value, str):
        yield path


def changed(obj: Json, path: tuple[Any, ...], text: str) -> Json:
    at: Any = obj
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = text
    return obj


@pytest.mark.parametrize("part", PARTS)
def test_as_it_should_be_requests_are_sent(part: str) -> None:
    make, run, ending = PARTS[part]
    server = run(make())
    assert any(urlsplit(url).path.endswith(ending) and method != "GET" for method, url in server.sent)
    assert server.outside(OWN) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
@pytest.mark.parametrize("part", PARTS)
def test_no_string_leads_outside_the_namespace(part: str, data: st.DataObject) -> None:
    make, run, _ = PARTS[part]
    obj = copy.deepcopy(make())  # parts of it may be shared
    paths = [path for path in leaves(obj) if path != ("metadata", "namespace")]
    chosen = data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=2, unique=True))
    for path in chosen:
        changed(obj, path, data.draw(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))))
    sent: list[ApiServer] = []
    with contextlib.suppress(InvalidPath, NotScalable):  # nothing was sent
        sent.append(run(obj))
    for server in sent:
        assert server.outside(OWN) == []


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", ["name", "kind", "apiVersion"])
def test_a_hostile_target_is_refused_in_the_status(field: str, name: str) -> None:
    obj = builders.kneepolicy()
    obj["spec"]["scaleTargetRef"][field] = name
    server = knee_scale(obj)
    assert server.outside(OWN) == []
    if name == "victim" or (field, name) == ("apiVersion", "a/b"):
        return  # like any other
    assert not any("scale" in url for _, url in server.sent)
    assert ("PATCH", f"{STATUS}/web/status") in server.sent
