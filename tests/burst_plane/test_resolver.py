"""A function's instance by the API server's answers, and what each refusal says."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.egress import read_policy
from burst_plane.functions import Resolution
from burst_plane.resolver import Resolver
from surgekit.kube.client import ApiError
from tests.burst_plane.objects import Json, deployment, function, network_policy
from tests.burst_plane.world import KINDS, serve_pods
from tests.fake_api_server import FakeApiServer
from tests.readers.hostile_objects import spoilt

ACCOUNT = 'User "system:serviceaccount:surgekit-system:surgekit-burst-controller"'
FORBIDDEN = f"is forbidden: {ACCOUNT} cannot create resource"


def resolve(api: FakeApiServer, port: int | str | None = 8080, **spec: Any) -> Resolution:
    return Resolver(api).resolve(function(**spec), port, [])


def server(*objects: Json, admission: Callable[[Json], Json] = lambda pod: pod) -> FakeApiServer:
    api = FakeApiServer(*objects, kinds=KINDS)
    serve_pods(api, admission)
    return api


def data_object(kind: str, name: str, data: dict[str, str]) -> Json:
    encoded = {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}
    metadata = {"namespace": "shop", "name": name, "uid": f"uid-{name}"}
    return {
        "apiVersion": "v1", "kind": kind, "metadata": metadata,
        "data": encoded if kind == "Secret" else data,
    }  # fmt: skip


def test_the_admitted_pod_is_the_truth() -> None:
    def admission(pod: Json) -> Json:
        pod["spec"]["containers"][0]["image"] = "mirror.example/resize:1"
        pod["spec"]["containers"][0]["env"] = [{"name": "INJECTED", "value": "yes"}]
        return pod

    found = resolve(server(deployment(), admission=admission))
    assert found.spec is not None
    assert (found.spec.image, found.spec.env) == ("mirror.example/resize:1", (("INJECTED", "yes"),))
    assert (found.reason, found.template) == ("Eligible", found.spec.template)


def test_the_create_is_a_dry_run() -> None:
    """The one thing that stands between this controller and the pods of a namespace."""
    seen: list[Any] = []

    class Watching(FakeApiServer):
        def _json(self, method: str, path: str, query: dict[str, Any], *rest: Any, **more: Any) -> Json:
            if method == "POST" and path.endswith("/pods"):
                seen.append(query.get("dryRun"))
            return super()._json(method, path, query, *rest, **more)

    api = Watching(deployment(), kinds=KINDS)
    serve_pods(api)
    assert resolve(api).reason == "Eligible"
    assert seen == ["All"]


def test_secrets_and_config_maps_are_read_for_environment_and_image() -> None:
    docker = json.dumps({"auths": {"registry.example": {"auth": "eDp5"}}})
    env = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}},
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "look", "key": "colour"}}},
    ]
    of = deployment(env=env)
    of["spec"]["template"]["spec"]["imagePullSecrets"] = [{"name": "registry"}]
    found = resolve(
        server(
            of,
            data_object("Secret", "token", {"t": "s3cret"}),
            data_object("ConfigMap", "look", {"colour": "blue"}),
            data_object("Secret", "registry", {".dockerconfigjson": docker}),
        )
    )
    assert found.spec is not None
    assert dict(found.spec.env) == {"TOKEN": "s3cret", "COLOUR": "blue"}
    assert json.loads(found.spec.pull_auth) == json.loads(docker)
    assert "s3cret" not in found.message


def refusing(code: int, reason: str, message: str) -> Callable[[Json], Json]:
    def admission(_: Json) -> Json:
        raise ApiError(code, reason, message)

    return admission


PSA = 'pods "resize-" is forbidden: violates PodSecurity "restricted:latest"'
VAP = "pods \"resize-\" is forbidden: ValidatingAdmissionPolicy 'no-latest' with binding 'b' denied request"
QUOTA = 'pods "resize-" is forbidden: exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5'
REFUSALS = [
    (refusing(403, "Forbidden", PSA), "Refused", "PodSecurity"),
    (refusing(403, "Forbidden", VAP), "Refused", "no-latest"),
    (refusing(403, "Forbidden", QUOTA), "Refused", "exceeded quota"),
    (refusing(422, "Invalid", "spec.containers[0].image: Required value"), "Refused", "image"),
    (refusing(403, "Forbidden", f"pods {FORBIDDEN}"), "NotAllowed", "surgekit-burst-templates"),
]


@pytest.mark.parametrize(("admission", "reason", "text"), REFUSALS)
def test_what_refuses_the_pod_refuses_the_function(
    admission: Callable[[Json], Json], reason: str, text: str
) -> None:
    found = resolve(server(deployment(), admission=admission))
    assert (found.spec, found.reason) == (None, reason)
    assert text in found.message


@pytest.mark.parametrize("code", [408, 429, 500, 503])
def test_the_api_servers_own_faults_are_nobodys_refusal(code: int) -> None:
    with pytest.raises(ApiError):
        resolve(server(deployment(), admission=refusing(code, "Oops", "try again")))


def test_without_a_target_or_with_one_of_another_kind() -> None:
    assert resolve(server()).reason == "NoTarget"
    goose = {"apiVersion": "example.dev/v1", "kind": "Goose", "name": "resize"}
    found = resolve(server(deployment()), targetRef=goose)
    assert (found.reason, "Goose" in found.message) == ("NoTarget", True)


def test_a_secret_that_may_not_be_read_is_said() -> None:
    api = server(deployment(envFrom=[{"secretRef": {"name": "token"}}]))
    forbidden = ApiError(403, "Forbidden", f'secrets "token" {FORBIDDEN}'.replace("create", "get"))
    api.fail(forbidden, when=lambda call: "secrets" in call.path)
    found = resolve(api)
    assert (found.reason, "surgekit-burst-templates" in found.message) == ("NotAllowed", True)


def test_an_egress_policy_that_selects_its_pods_makes_it_ineligible() -> None:
    def found(**spec: Any) -> str:
        policy = read_policy(network_policy("quiet", policyTypes=["Egress"], **spec))
        assert policy is not None
        return Resolver(server(deployment())).resolve(function(), 8080, [policy]).reason

    assert found() == "EgressPolicy"
    assert found(podSelector={"matchLabels": {"app": "resize"}}) == "EgressPolicy"
    assert found(podSelector={"matchLabels": {"app": "another"}}) == "Eligible"


def test_node_speeds_are_relative_and_optional() -> None:
    def speed(name: str, tau: Any) -> Json:
        return {
            "apiVersion": "surgekit.dev/v1alpha1", "kind": "NodeSpeed",
            "metadata": {"name": name, "uid": name}, "status": {"tauCreateSeconds": tau},
        }  # fmt: skip

    api = server(speed("fast", 0.5), speed("slow", 1.0), speed("odd", "x"), speed("none", 0))
    assert Resolver(api).speeds() == {"fast": 1.333, "slow": 0.667}
    api.fail(ApiError(500, "InternalError", "oops"), when=lambda call: "nodespeeds" in call.path)
    assert Resolver(api).speeds() == {}


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_whatever_the_target_is_it_is_resolved_or_refused_in_words(data: st.DataObject) -> None:
    target = data.draw(spoilt(deployment(env=[{"name": "A", "value": "b"}])))
    target["metadata"]["name"] = "resize"

    class Serving(FakeApiServer):
        def get(self, path: str, **query: Any) -> Json:
            return target if "deployments" in path else super().get(path, **query)

    api = Serving(kinds=KINDS)
    serve_pods(api)
    found = resolve(api)
    assert found.reason in ("Eligible", "NoTarget", "CannotBeHonoured")
    assert bool(found.spec) == (found.reason == "Eligible")
    assert found.message


def test_calls_are_few() -> None:
    api = server(deployment())
    resolve(api)
    assert [(call.method, call.path.rpartition("/")[2]) for call in api.calls] == [
        ("GET", "resize"),
        ("POST", "pods"),
    ]
