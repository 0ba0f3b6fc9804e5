"""The manifests against a real API server, and the schedulers they configure against real schedulers."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from cryptography import x509
from typer.testing import CliRunner

from kwok.binaries import Binaries
from kwok.lab import Lab
from node_speed_probe.controller import LEASE_NAME
from surgekit.certificates import ReloadingServerContext, ensure
from surgekit.cli.certificates import app
from surgekit.kube import ApiError, Kube

pytestmark = pytest.mark.lab

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = "surgekit-system"
PLACEMENT = "surgekit.dev/placement"
SERVICE = f"surgekit-extender.{NAMESPACE}.svc"
# Other projects' CRDs, from the Go modules they publish: (module, where in it, the files we need).
CERT_MANAGER = ("github.com/cert-manager/cert-manager@v1.19.1", "deploy/crds", "cert-manager.io_{}.yaml")
PROMETHEUS_OPERATOR = (
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "example/prometheus-operator-crd",
    "monitoring.coreos.com_{}.yaml",
)


@pytest.fixture(scope="module")
def installed(binaries: Binaries) -> Iterator[Lab]:
    """Nodes, a stock scheduler, and surgekit installed as the README says.

    In a lab of its own: an admission policy for all pods would reach other tests' pods as well.
    """
    with Lab.temporary("manifests", instant_pods=True) as lab:
        lab.add_nodes(3)
        lab.start_scheduler()
        for directory in ("overlays/self-signed", "overlays/second-scheduler", "base/opt-in"):
            lab.apply(MANIFESTS / directory)
        yield lab


def until(condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.2)


# ---- what is applied


@pytest.mark.parametrize(
    "directory",
    [
        "overlays/self-signed",
        "overlays/second-scheduler",
        "base/opt-in",
        "expander",
        "karpenter",
        "karpenter/opt-in",
    ],
)
def test_the_api_server_takes_everything_and_warns_of_nothing(installed: Lab, directory: str) -> None:
    arguments = ("apply", "--server-side", "-k", MANIFESTS / directory, "--dry-run=server")
    installed.kubectl(*arguments, "--warnings-as-errors")


@pytest.mark.parametrize(
    ("overlay", "module", "resources"),
    [
        ("cert-manager", CERT_MANAGER, ["certificates", "issuers"]),
        ("monitoring", PROMETHEUS_OPERATOR, ["servicemonitors", "prometheusrules"]),
    ],
)
def test_objects_of_other_projects(
    installed: Lab, overlay: str, module: tuple[str, str, str], resources: list[str]
) -> None:
    version, folder, pattern = module
    crds = _module(version) / folder
    for resource in resources:
        installed.kubectl("apply", "--server-side", "-f", crds / pattern.format(resource))
    group = pattern.split("_", maxsplit=1)[0]
    for resource in resources:
        name = f"crd/{resource}.{group}"
        installed.kubectl("wait", "--for=condition=Established", name, "--timeout=30s")
    overlay_directory = MANIFESTS / "overlays" / overlay
    said = installed.kubectl("apply", "--server-side", "-k", overlay_directory, "--dry-run=server")
    for resource in resources:
        assert f"{resource[:-1]}.{group}/" in said


def _module(version: str) -> Path:
    go = shutil.which("go")
    if not go:
        pytest.skip("needs Go, to fetch the module that carries the CRDs")
    done = subprocess.run(
        [go, "mod", "download", "-json", version], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"the module that carries the CRDs cannot be fetched: {version}")
    return Path(json.loads(done.stdout)["Dir"])


@pytest.mark.parametrize("name", ["surgekit-extender", "surgekit-probe", "surgekit-scheduler"])
def test_hardened_pods_are_let_in_spread_and_kept_available(installed: Lab, name: str) -> None:
    """The namespace enforces the restricted Pod Security Standard: what violates it makes no pod."""
    installed.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=60s")
    pods, _ = installed.kube.list_all(
        f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"app.kubernetes.io/name={name}"
    )
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2
    for pod in pods:
        assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
        assert PLACEMENT not in pod["spec"]["containers"][0]["resources"].get("requests", {})
        assert pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]

    def budget() -> Any:
        path = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{name}"
        return installed.kube.get(path).get("status", {}).get("disruptionsAllowed")

    until(lambda: budget() == 1, f"the disruption budget of {name} allows one")


def test_services_find_their_pods(installed: Lab) -> None:
    for name, port in (("surgekit-extender", 8443), ("surgekit-probe", 8080)):

        def ports(name: str = name) -> set[int]:
            slices, _ = installed.kube.list_all(
                f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices",
                labelSelector=f"kubernetes.io/service-name={name}",
            )
            return {p["port"] for s in slices if len(s.get("endpoints") or []) == 2 for p in s["ports"]}

        until(lambda ports=ports, port=port: ports() == {port}, f"endpoints of {name}")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults


def test_an_overlay_of_your_own_sets_image_and_settings(installed: Lab, tmp_path: Path) -> None:
    """As the README shows it."""
    mine = {
        "resources": [os.path.relpath(MANIFESTS / "overlays" / "self-signed", tmp_path)],
        "images": [{"name": "surgekit", "newName": "registry.example/surgekit", "newTag": "9"}],
        "configMapGenerator": [
            {
                "name": "surgekit-extender-settings",
                "namespace": NAMESPACE,
                "behavior": "replace",
                "files": ["settings.yaml"],
            }
        ],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(mine))
    (tmp_path / "settings.yaml").write_text("mode: shadow")
    built = list(yaml.safe_load_all(installed.kubectl("kustomize", tmp_path)))
    images = set(re.findall(r"'image': '([^']+)'", str(built)))
    assert images == {"registry.example/surgekit:9"}
    (settings,) = [o for o in built if o["metadata"]["name"].startswith("surgekit-extender-settings-")]
    assert settings["data"] == {"settings.yaml": "mode: shadow"}
    (deployment,) = [
        o for o in built if (o["kind"], o["metadata"]["name"]) == ("Deployment", "surgekit-extender")
    ]
    assert settings["metadata"]["name"] in str(deployment)


# ---- who may do what

READ = ("get", "list", "watch")
# (account, verb, group, resource, subresource, namespace, name): allowed?
RIGHTS = [
    *(
        ("surgekit-extender", v, "", r, "", "", "", True)
        for v in READ
        for r in ("nodes", "pods", "namespaces")
    ),
    *(("surgekit-extender", v, "surgekit.dev", "nodespeeds", "", "", "", True) for v in READ),
    ("surgekit-extender", "create", "surgekit.dev", "nodespeeds", "", "", "", False),
    ("surgekit-extender", "get", "", "secrets", "", NAMESPACE, "surgekit-extender-tls", False),
    *(("surgekit-probe", v, "", r, "", "", "", True) for v in READ for r in ("nodes", "pods", "events")),
    *(("surgekit-probe", v, "surgekit.dev", "nodespeeds", "", "", "", True) for v in (*READ, "create")),
    *(
        ("surgekit-probe", v, "surgekit.dev", "nodespeeds", "status", "", "", True)
        for v in ("get", "patch", "update")
    ),
    ("surgekit-probe", "delete", "surgekit.dev", "nodespeeds", "", "", "", False),
    ("surgekit-probe", "create", "coordination.k8s.io", "leases", "", NAMESPACE, "", True),
    *(
        ("surgekit-probe", v, "coordination.k8s.io", "leases", "", NAMESPACE, LEASE_NAME, True)
        for v in ("get", "update", "patch")
    ),
    ("surgekit-probe", "update", "coordination.k8s.io", "leases", "", NAMESPACE, "surgekit-scheduler", False),
    ("surgekit-probe", "update", "coordination.k8s.io", "leases", "", "kube-system", LEASE_NAME, False),
    ("surgekit-scheduler", "create", "", "pods", "binding", "default", "", True),
    (
        "surgekit-scheduler",
        "update",
        "coordination.k8s.io",
        "leases",
        "",
        NAMESPACE,
        "surgekit-scheduler",
        True,
    ),
    ("surgekit-scheduler", "update", "coordination.k8s.io", "leases", "", NAMESPACE, LEASE_NAME, False),
    *(
        ("surgekit-certificates", v, "", "secrets", "", NAMESPACE, s, True)
        for v in ("get", "update")
        for s in ("surgekit-ca", "surgekit-extender-tls", "surgekit-expander-tls")
    ),
    ("surgekit-certificates", "get", "", "secrets", "", NAMESPACE, "another", False),
    ("surgekit-certificates", "list", "", "secrets", "", NAMESPACE, "", False),
    ("surgekit-certificates", "create", "", "secrets", "", "default", "", False),
    ("surgekit-certificates", "list", "", "pods", "", "", "", False),
    *(
        (account, verb, "", resource, subresource, "default", "", False)
        for account in ("surgekit-extender", "surgekit-probe", "surgekit-certificates")
        for verb, resource, subresource in (
            ("patch", "nodes", ""),
            ("update", "nodes", "status"),
            ("create", "pods", ""),
            ("delete", "pods", ""),
            ("create", "pods", "binding"),
            ("create", "pods", "exec"),
            ("get", "secrets", ""),
            ("list", "secrets", ""),
            ("create", "serviceaccounts", "token"),
        )
    ),
]


def test_every_account_can_do_its_work_and_nothing_else(installed: Lab) -> None:
    wrong = []
    for account, verb, group, resource, subresource, namespace, name, expected in RIGHTS:
        attributes = {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace, "name": name,
        }  # fmt: skip
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
        review = installed.kube.create(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
            },
        )
        if review["status"]["allowed"] != expected:
            wrong.append((account, attributes, "must be allowed" if expected else "must be refused"))
    assert wrong == []


def keep_certificates(lab: Lab) -> list[str]:
    """What the Job runs, under the Job's account; what it did."""
    kubeconfig = lab.account_kubeconfig(NAMESPACE, "surgekit-certificates")
    result = CliRunner().invoke(app, ["secrets", "--kubeconfig", str(kubeconfig), "--json"])
    assert result.exit_code == 0, result.output
    return [change["action"] for change in json.loads(result.stdout)]


def lose_the_ca(lab: Lab) -> None:
    lab.kube.delete(f"/api/v1/namespaces/{NAMESPACE}/secrets/surgekit-ca")


def test_the_keeper_of_certificates_runs_under_its_own_account(installed: Lab) -> None:
    assert keep_certificates(installed) == ["created"] * 5
    assert keep_certificates(installed) == ["kept"] * 5
    servers = ("surgekit-extender-tls", "surgekit-expander-tls")
    for name in (*servers, "surgekit-scheduler-client-tls", "surgekit-prometheus-client-tls"):
        secret = installed.kube.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
        assert (secret["type"], set(secret["data"])) == (
            "kubernetes.io/tls",
            {"ca.crt", "tls.crt", "tls.key"},
        )
    # As the README has a control-plane node read it.
    template = '{{index .data "tls.crt" | base64decode}}'
    read = (
        "-n",
        NAMESPACE,
        "get",
        "secret",
        "surgekit-scheduler-client-tls",
        "-o",
        f"go-template={template}",
    )
    assert installed.kubectl(*read).startswith("-----BEGIN CERTIFICATE-----")
    # A CA removed on purpose (README, "Certificates") takes everything it signed with it.
    lose_the_ca(installed)
    assert keep_certificates(installed) == ["created"] + ["renewed"] * 4


def test_the_keeper_of_certificates_cannot_make_itself_another_account(installed: Lab) -> None:
    kube = Kube.connect(installed.account_kubeconfig(NAMESPACE, "surgekit-certificates"))
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    annotations = {"kubernetes.io/service-account.name": "surgekit-scheduler"}
    for name, kind in (("another", "Opaque"), ("surgekit-ca", "kubernetes.io/service-account-token")):
        secret = {
            "apiVersion": "v1", "kind": "Secret", "type": kind,
            "metadata": {"name": name, "annotations": annotations},
        }  # fmt: skip

        def refused(secret: dict[str, Any] = secret) -> bool:
            try:
                kube.create(path, secret, dryRun="All")
            except ApiError as error:
                return "keeps its own Secrets only" in error.message
            return False

        until(refused, f"{name} ({kind}) is refused")  # a policy takes moments to come into force


# ---- the extender as shipped


def mount(lab: Lab, secret: str, directory: Path) -> Path:
    """What kubelet does with a Secret: a new directory for each version, and one symlink swapped."""
    data = lab.kube.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret}")["data"]
    version = directory / f"..{time.monotonic_ns()}"
    version.mkdir(parents=True)
    for name, content in data.items():
        (version / name).write_bytes(b64decode(content))
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"..data/{name}")
    (directory / "..data_tmp").symlink_to(version.name)
    os.replace(directory / "..data_tmp", directory / "..data")
    return directory


def connect(port: int, trusted: Path, client: Path | None) -> http.client.HTTPConnection:
    """A connection over TLS, to the name the Service has."""
    context = ssl.create_default_context(cafile=trusted / "ca.crt")
    if client:
        context.load_cert_chain(client / "tls.crt", client / "tls.key")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    raw = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sock = context.wrap_socket(raw, server_hostname=SERVICE)
    return connection


def get(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


def refused_body(connection: http.client.HTTPConnection) -> int:
    """/prioritize, which keeps its connection open, asked with a body it refuses."""
    connection.request("POST", "/prioritize", b"{}")
    with connection.getresponse() as answer:
        answer.read()
        return answer.status


def test_the_extender_as_shipped_follows_its_certificates(installed: Lab, tmp_path: Path) -> None:
    """The Deployment's arguments, its account's rights, Secrets as kubelet mounts and updates them."""
    keep_certificates(installed)
    server = mount(installed, "surgekit-extender-tls", tmp_path / "server")
    prometheus = mount(installed, "surgekit-prometheus-client-tls", tmp_path / "prometheus")
    deployment = yaml.safe_load((MANIFESTS / "base" / "extender" / "deployment.yaml").read_text())
    arguments: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    port = installed.free_port()
    there = {
        "/etc/surgekit/settings": str(MANIFESTS / "base" / "extender"),
        "/etc/surgekit/tls": str(server),
        "0.0.0.0:8443": f"127.0.0.1:{port}",
    }
    for in_pod, here in there.items():
        arguments = [argument.replace(in_pod, here) for argument in arguments]
    account = installed.account_kubeconfig(NAMESPACE, "surgekit-extender")
    surgekit = Path(sys.executable).with_name("surgekit")

    def ready() -> bool:
        try:
            with closing(connect(port, server, None)) as connection:
                return get(connection, "/readyz") == 200
        except OSError:
            return False

    installed.start(
        "extender-as-shipped", [surgekit, *arguments, f"--kubeconfig={account}"], ready=ready, port=port
    )
    try:
        with (
            closing(connect(port, server, None)) as kubelet,
            closing(connect(port, server, None)) as stranger,
            closing(connect(port, server, prometheus)) as scraper,
            closing(connect(port, server, prometheus)) as before,
        ):
            asked = get(kubelet, "/livez"), get(stranger, "/metrics"), get(scraper, "/metrics")
            assert asked == (200, 403, 200)
            assert refused_body(before) == 400
            lose_the_ca(installed)
            keep_certificates(installed)
            mount(installed, "surgekit-extender-tls", server)
            with pytest.raises(OSError), closing(connect(port, server, prometheus)) as leaked:  # noqa: PT011, PT012  # refused in the handshake (TLS 1.2) or at the first read (1.3)
                if get(leaked, "/livez") == 200:
                    pytest.fail("a certificate of the CA that was removed still opens a connection")
            mount(installed, "surgekit-prometheus-client-tls", prometheus)
            with closing(connect(port, server, prometheus)) as after_rotation:
                assert get(after_rotation, "/metrics") == 200
            assert refused_body(before) == 400, "an open connection goes on"
    finally:
        installed.stop("extender-as-shipped")


# ---- opting in


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "example/app"}]
    metadata = {"name": name, "labels": labels or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers} | spec,
    }


@pytest.fixture(scope="module")
def namespaces(installed: Lab) -> Lab:
    """Namespaces `on`, `watching`, `refusing` and `silent`, and the policy known to be in force."""
    for name, value in (("on", "enforce"), ("watching", "shadow"), ("refusing", "off"), ("silent", None)):
        metadata = {"name": name, "labels": {PLACEMENT: value} if value else {}}
        installed.kube.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
        until(lambda name=name: _has_account(installed, name), f"namespace {name}")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
    until(lambda: marks(create(installed, "on", pod("any"), dry=True)) == ["c"], "the policy is in force")
    until(
        lambda: marks(create(installed, "silent", pod("any", {PLACEMENT: "shadow"}), dry=True)) == ["c"],
        "the policy is in force for pods",
    )
    return installed


def _has_account(lab: Lab, namespace: str) -> bool:
    try:
        lab.kube.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
    except ApiError:
        return False
    return True


def create(lab: Lab, namespace: str, body: dict[str, Any], dry: bool = False) -> dict[str, Any]:
    return lab.kube.create(f"/api/v1/namespaces/{namespace}/pods", body, **({"dryRun": "All"} if dry else {}))


def marks(created: dict[str, Any]) -> list[str]:
    """The containers that carry the zero resource, in requests and limits alike."""
    found = []
    for container in created["spec"]["containers"]:
        resources = container["resources"]
        requested = resources.get("requests", {}).get(PLACEMENT)
        assert requested == resources.get("limits", {}).get(PLACEMENT)
        if requested is not None:
            found.append(container["name"])
    return found


@pytest.mark.parametrize(
    ("namespace", "label", "marked"),
    [
        ("on", None, True),
        ("watching", None, True),
        ("refusing", None, False),
        ("silent", None, False),
        ("silent", "enforce", True),
        ("silent", "shadow", True),
        ("refusing", "enforce", True),
        ("on", "off", False),
        ("watching", "off", False),
        ("on", "shadow", True),
        ("on", "nonsense", False),
    ],
)
def test_the_pods_label_decides_else_the_namespaces(
    namespaces: Lab, namespace: str, label: str | None, marked: bool
) -> None:
    created = create(namespaces, namespace, pod("p", {PLACEMENT: label} if label else {}), dry=True)
    assert marks(created) == (["c"] if marked else [])


REQUESTS = {"requests": {"cpu": "100m"}}
LIMITS = {"limits": {"memory": "64Mi"}}


@pytest.mark.parametrize(
    "resources",
    [None, {}, REQUESTS, LIMITS, REQUESTS | LIMITS, {"requests": {}, "limits": {}}],
    ids=["none", "empty", "requests", "limits", "both", "empty maps"],
)
def test_what_a_pod_asked_for_stays_as_it_was(namespaces: Lab, resources: dict[str, Any] | None) -> None:
    first: dict[str, Any] = {"name": "first", "image": "example/app"}
    if resources is not None:
        first["resources"] = resources
    # Twice the same variable: Kubernetes takes it, a server-side merge would not.
    first["env"] = [{"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}]
    second = {"name": "second", "image": "example/sidecar", "resources": REQUESTS}
    body = pod("p", containers=[first, second], initContainers=[{"name": "init", "image": "example/init"}])
    plain = create(namespaces, "silent", body, dry=True)["spec"]
    created = create(namespaces, "on", body, dry=True)
    assert marks(created) == ["first"]
    # Empty maps and missing ones are the same to the API.
    added = created["spec"]["containers"][0].pop("resources")
    before = plain["containers"][0].pop("resources")
    for kind in ("requests", "limits"):
        assert added[kind] == before.get(kind, {}) | {PLACEMENT: "0"}
    for spec in (plain, created["spec"]):  # the token's volume has a random name
        spec.pop("volumes")
        for container in spec["containers"] + spec["initContainers"]:
            container.pop("volumeMounts")
    assert created["spec"] == plain


def test_a_pod_that_carries_the_mark_is_left_alone(namespaces: Lab) -> None:
    marked = {kind: {PLACEMENT: "0"} for kind in ("requests", "limits")}
    containers = [
        {"name": "first", "image": "example/app"},
        {"name": "second", "image": "example/app", "resources": marked},
    ]
    assert marks(create(namespaces, "on", pod("p", containers=containers), dry=True)) == ["second"]
    in_init = pod("p", initContainers=[{"name": "init", "image": "example/app", "resources": marked}])
    assert marks(create(namespaces, "on", in_init, dry=True)) == []


def test_pods_of_a_deployment_are_marked_and_it_settles(namespaces: Lab) -> None:
    """The template has no mark and its pods do: no controller may take that for drift."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("")["spec"]}
    namespaces.kube.create(
        "/apis/apps/v1/namespaces/on/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    namespaces.kubectl("-n", "on", "rollout", "status", "deployment/web", "--timeout=60s")
    pods, _ = namespaces.kube.list_all("/api/v1/namespaces/on/pods", labelSelector="app=web")
    assert [marks(p) for p in pods] == [["c"]] * 3


# ---- the configurations, read by the real kube-scheduler


@dataclass
class Asked:
    """What reached the extender: names of pods, and the client certificates they came with."""

    pods: list[str] = field(default_factory=list)
    serials: set[int] = field(default_factory=set)


@dataclass
class Extender:
    url: str
    tls: Path
    asked: Asked = field(default_factory=Asked)

    def renew(self) -> None:
        for file in ("tls.crt", "kube-scheduler.crt"):
            (self.tls / file).unlink()
        ensure(self.tls, [SERVICE], ["kube-scheduler"], datetime.now(UTC))

    def entry(self, configuration: Path) -> dict[str, Any]:
        """The shipped configuration, with this server's address and files in place of the pod's."""
        content: dict[str, Any] = yaml.safe_load(configuration.read_text())
        (extender,) = content["extenders"]
        extender["urlPrefix"] = self.url
        given = {"certFile": "kube-scheduler.crt", "keyFile": "kube-scheduler.key", "caFile": "ca.crt"}
        assert set(extender["tlsConfig"]) - {"serverName"} == set(given)
        files = {key: str(self.tls / file) for key, file in given.items()}
        extender["tlsConfig"] = {"serverName": SERVICE} | extender["tlsConfig"] | files
        return content


@pytest.fixture
def extender(tmp_path: Path) -> Iterator[Extender]:
    """An HTTPS server that notes who asks for what and answers neutrally; a handshake per request."""
    ensure(tmp_path, [SERVICE], ["kube-scheduler"], datetime.now(UTC))
    reloading = ReloadingServerContext(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert isinstance(self.connection, ssl.SSLSocket)
            certificate = self.connection.getpeercert()
            assert certificate, "the scheduler showed no certificate"
            arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert arguments.get("Nodes") is None, "nodeCacheCapable: names, not objects"
            asked.serials.add(int(str(certificate["serialNumber"]), 16))
            asked.pods.append(arguments["Pod"]["metadata"]["name"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            """The handshake, in the thread of its connection."""
            with reloading.context.wrap_socket(request, server_side=True) as connection:
                Handler(connection, client_address, self)

    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield Extender(f"https://127.0.0.1:{server.server_address[1]}", tmp_path, asked)
        server.shutdown()


def placed(lab: Lab, namespace: str, name: str) -> bool:
    return "nodeName" in lab.kube.get(f"/api/v1/namespaces/{namespace}/pods/{name}")["spec"]


def test_a_scheduler_without_the_extender_places_marked_pods(namespaces: Lab) -> None:
    assert marks(create(namespaces, "on", pod("without"))) == ["c"]
    until(lambda: placed(namespaces, "on", "without"), "the stock scheduler places it")


def test_the_control_plane_snippet_calls_for_marked_pods_only(namespaces: Lab, extender: Extender) -> None:
    namespaces.stop_scheduler()
    try:
        snippet = extender.entry(MANIFESTS / "control-plane" / "kube-scheduler-config.yaml")
        namespaces.start_scheduler(snippet)
        for namespace, name in (("on", "inside"), ("silent", "outside"), ("watching", "shadowed")):
            create(namespaces, namespace, pod(name))
            until(lambda ns=namespace, n=name: placed(namespaces, ns, n), f"{name} is placed")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        assert extender.asked.pods == ["inside", "shadowed"]
        # Renewed on both sides while the scheduler runs: it reads its certificate again by itself.
        extender.renew()
        extender.asked.serials.clear()
        time.sleep(1.5)  # client-go looks at the files at most once a second
        create(namespaces, "on", pod("after-renewal"))
        until(lambda: placed(namespaces, "on", "after-renewal"), "a pod after the renewal is placed")
        assert extender.asked.pods[-1] == "after-renewal"
        assert extender.asked.serials == {_serial(extender.tls / "kube-scheduler.crt")}
    finally:
        namespaces.stop_scheduler()
        namespaces.start_scheduler()


def _serial(certificate: Path) -> int:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number


def test_the_second_scheduler_runs_beside_the_first_under_its_own_account(
    namespaces: Lab, extender: Extender
) -> None:
    configuration = extender.entry(MANIFESTS / "overlays" / "second-scheduler" / "kube-scheduler-config.yaml")
    account = namespaces.account_kubeconfig(NAMESPACE, "surgekit-scheduler")
    namespaces.start_scheduler(configuration, "second-scheduler", account)
    try:
        create(namespaces, "silent", pod("by-second", schedulerName="surgekit"))
        create(namespaces, "silent", pod("by-first"))
        for name in ("by-second", "by-first"):
            until(lambda n=name: placed(namespaces, "silent", n), f"{name} is placed")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        assert extender.asked.pods == ["by-second"]
        lease = namespaces.kube.get(
            f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/surgekit-scheduler"
        )
        assert lease["spec"]["holderIdentity"]
    finally:
        namespaces.stop("second-scheduler")


def test_a_scheduler_that_trusts_another_ca_does_without(
    namespaces: Lab, extender: Extender, tmp_path: Path
) -> None:
    """The extender cannot be impersonated: with its name but not its CA nobody is listened to."""
    ensure(tmp_path / "other", [SERVICE], ["kube-scheduler"], datetime.now(UTC))
    configuration = extender.entry(MANIFESTS / "overlays" / "second-scheduler" / "kube-scheduler-config.yaml")
    configuration["extenders"][0]["tlsConfig"]["caFile"] = str(tmp_path / "other" / "ca.crt")
    account = namespaces.account_kubeconfig(NAMESPACE, "surgekit-scheduler")
    namespaces.start_scheduler(configuration, "second-scheduler", account)
    try:
        create(namespaces, "silent", pod("not-fooled", schedulerName="surgekit"))
        until(lambda: placed(namespaces, "silent", "not-fooled"), "it is placed all the same")
        assert extender.asked.pods == []
    finally:
        namespaces.stop("second-scheduler")


def test_a_node_cannot_be_changed_by_any_part(installed: Lab) -> None:
    for account in ("surgekit-extender", "surgekit-probe", "surgekit-certificates"):
        kube = Kube.connect(installed.account_kubeconfig(NAMESPACE, account))
        nodes, _ = installed.kube.list_all("/api/v1/nodes")
        with pytest.raises(ApiError, match="403"):
            kube.patch(f"/api/v1/nodes/{nodes[0]['metadata']['name']}", {"metadata": {"labels": {"a": "b"}}})


def test_taking_the_opt_in_out_leaves_pods_schedulable(namespaces: Lab) -> None:
    """The README's rollback of the opt-in; last, since it takes it away."""
    assert marks(create(namespaces, "on", pod("marked-before"))) == ["c"]
    namespaces.kubectl("delete", "-k", MANIFESTS / "base" / "opt-in")
    until(lambda: marks(create(namespaces, "on", pod("any"), dry=True)) == [], "pods are no longer marked")
    create(namespaces, "on", pod("after"))
    for name in ("marked-before", "after"):
        until(lambda n=name: placed(namespaces, "on", n), f"{name} is placed")  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
