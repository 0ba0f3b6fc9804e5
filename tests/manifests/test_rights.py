"""Who may do what."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster_view.sources import RESOURCES as SHOWN
from hpa_replacement.controller import LEASE_NAME as KNEESCALE_LEASE
from kwok.lab import Lab
from node_speed_probe.controller import LEASE_NAME
from surgekit.kube.client import ApiError, Kube
from tests.manifests.installed_cluster import MANIFESTS, NAMESPACE

pytestmark = pytest.mark.lab

READ = ("get", "list", "watch")
# Account, verb, group, resource, subresource, namespace, name; whether it is allowed.
Right = tuple[str, str, str, str, str, str, str, bool]
RIGHTS: list[Right] = [
    *(
        ("surgekit-extender", v, "", r, "", "", "", True)
        for v in READ
        for r in ("nodes", "pods", "namespaces")
    ),
    *(("surgekit-extender", v, "surgekit.dev", "nodespeeds", "", "", "", True) for v in READ),
    ("surgekit-extender", "create", "surgekit.dev", "nodespeeds", "", "", "", False),
    *(
        ("surgekit-view", verb, resource.api_version.rpartition("/")[0], resource.plural, "", "", "", allowed)
        for resource in SHOWN
        for verb, allowed in (
            ("list", True),
            ("watch", True),
            ("get", False),
            ("create", False),
            ("patch", False),
            ("delete", False),
        )
    ),
    *(
        ("surgekit-view", verb, "", resource, subresource, NAMESPACE, "", False)
        for verb, resource, subresource in (
            ("get", "secrets", ""),
            ("list", "configmaps", ""),
            ("list", "namespaces", ""),
            ("create", "pods", "portforward"),
            ("create", "pods", "exec"),
            ("get", "pods", "log"),
            ("create", "events", ""),
            ("create", "serviceaccounts", "token"),
        )
    ),
    *(
        (account, verb, "events.k8s.io", "events", "", "shop", "", verb == "create")
        for account in ("surgekit-extender", "surgekit-probe", "surgekit-adapter")
        for verb in ("create", "list", "patch", "delete")
    ),
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
    *(("surgekit-kneescale", v, "", r, "", "", "", True) for v in READ for r in ("nodes", "pods")),
    *(("surgekit-kneescale", v, "surgekit.dev", "kneepolicies", "", "", "", True) for v in READ),
    *(("surgekit-kneescale", v, "autoscaling", "horizontalpodautoscalers", "", "", "", True) for v in READ),
    *(
        ("surgekit-kneescale", v, group, resource, "scale", "shop", "", True)
        for v in ("get", "patch")
        for group, resource in (
            ("apps", "deployments"),
            ("surgekit.dev", "combofuncs"),
            ("example.dev", "geese"),
        )
    ),
    ("surgekit-kneescale", "patch", "surgekit.dev", "kneepolicies", "status", "shop", "", True),
    ("surgekit-kneescale", "patch", "surgekit.dev", "kneepolicies", "", "shop", "", False),
    ("surgekit-kneescale", "patch", "apps", "deployments", "", "shop", "", False),
    ("surgekit-kneescale", "patch", "surgekit.dev", "combofuncs", "", "shop", "", False),
    ("surgekit-kneescale", "update", "autoscaling", "horizontalpodautoscalers", "", "shop", "", False),
    ("surgekit-kneescale", "create", "events.k8s.io", "events", "", "shop", "", True),
    ("surgekit-kneescale", "get", "", "secrets", "", NAMESPACE, "surgekit-adapter-tls", False),
    ("surgekit-kneescale", "update", "coordination.k8s.io", "leases", "", NAMESPACE, KNEESCALE_LEASE, True),
    ("surgekit-kneescale", "update", "coordination.k8s.io", "leases", "", NAMESPACE, LEASE_NAME, False),
    *(
        ("surgekit-combofunc", v, group, r, "", "", "", True)
        for v in READ
        for group, r in (
            ("", "nodes"),
            ("", "pods"),
            ("surgekit.dev", "nodespeeds"),
            ("surgekit.dev", "combofuncs"),
            ("surgekit.dev", "inplacedeployments"),
        )
    ),
    *(
        ("surgekit-combofunc", v, group, resource, subresource, "shop", "", allowed)
        for v, group, resource, subresource, allowed in (
            ("create", "", "pods", "", True),
            ("patch", "", "pods", "", True),
            ("delete", "", "pods", "", True),
            ("patch", "", "pods", "resize", True),
            ("patch", "", "pods", "status", True),
            ("create", "events.k8s.io", "events", "", True),
            ("list", "events.k8s.io", "events", "", False),
            ("patch", "surgekit.dev", "combofuncs", "status", True),
            ("patch", "surgekit.dev", "inplacedeployments", "status", True),
            ("update", "", "pods", "", False),
            ("update", "", "pods", "status", False),
            ("deletecollection", "", "pods", "", False),
            ("create", "", "pods", "binding", False),
            ("create", "", "pods", "exec", False),
            ("create", "", "pods", "eviction", False),
            ("patch", "", "nodes", "", False),
            ("patch", "", "nodes", "status", False),
            ("patch", "surgekit.dev", "combofuncs", "", False),
            ("delete", "surgekit.dev", "combofuncs", "", False),
            ("patch", "surgekit.dev", "combofuncs", "scale", False),
            ("patch", "surgekit.dev", "inplacedeployments", "", False),
            ("patch", "surgekit.dev", "inplacedeployments", "scale", False),
            ("patch", "surgekit.dev", "nodespeeds", "status", False),
            ("patch", "apps", "deployments", "", False),
            ("create", "", "serviceaccounts", "token", False),
            ("get", "", "secrets", "", False),
            ("get", "", "configmaps", "", False),
            ("get", "", "services", "", False),
        )
    ),
    ("surgekit-combofunc", "create", "coordination.k8s.io", "leases", "", NAMESPACE, "", True),
    *(
        ("surgekit-combofunc", v, "coordination.k8s.io", "leases", "", NAMESPACE, "surgekit-combofunc", True)
        for v in ("get", "update", "patch")
    ),
    ("surgekit-combofunc", "update", "coordination.k8s.io", "leases", "", NAMESPACE, LEASE_NAME, False),
    ("surgekit-combofunc", "create", "coordination.k8s.io", "leases", "", "shop", "", False),
    *(
        ("surgekit-limit-allocator", v, group, r, "", "", "", True)
        for v in READ
        for group, r in (
            ("", "pods"),
            ("", "resourcequotas"),
            ("", "limitranges"),
            ("surgekit.dev", "distributedcontainers"),
        )
    ),
    *(
        ("surgekit-limit-allocator", v, group, resource, subresource, "shop", "", allowed)
        for v, group, resource, subresource, allowed in (
            ("patch", "", "pods", "resize", True),
            ("patch", "surgekit.dev", "distributedcontainers", "status", True),
            ("create", "events.k8s.io", "events", "", True),
            ("create", "authentication.k8s.io", "tokenreviews", "", True),
            ("create", "authorization.k8s.io", "subjectaccessreviews", "", False),
            ("create", "", "serviceaccounts", "token", False),
            ("patch", "", "pods", "", False),
            ("patch", "", "pods", "status", False),
            ("delete", "", "pods", "", False),
            ("create", "", "pods", "", False),
            ("create", "", "pods", "exec", False),
            ("patch", "surgekit.dev", "distributedcontainers", "", False),
            ("delete", "surgekit.dev", "distributedcontainers", "", False),
            ("patch", "", "resourcequotas", "", False),
            ("patch", "", "limitranges", "", False),
            ("get", "", "nodes", "", False),
            ("get", "", "secrets", "", False),
        )
    ),
    ("surgekit-limit-allocator", "create", "coordination.k8s.io", "leases", "", NAMESPACE, "", True),
    *(
        ("surgekit-limit-allocator", v, "coordination.k8s.io", "leases", "", NAMESPACE, name, allowed)
        for v in ("get", "update", "patch")
        for name, allowed in (("surgekit-limit-allocator", True), (LEASE_NAME, False))
    ),
    *(
        ("surgekit-burst-controller", v, group, r, "", "", "", True)
        for v in READ
        for group, r in (
            ("", "nodes"),
            ("", "services"),
            ("apps", "deployments"),
            ("networking.k8s.io", "networkpolicies"),
            ("surgekit.dev", "burstfunctions"),
        )
    ),
    *(("surgekit-burst-controller", v, "", "pods", "", "surgekit-agents", "", True) for v in READ),
    *(
        ("surgekit-burst-controller", v, group, resource, subresource, "shop", "", allowed)
        for v, group, resource, subresource, allowed in (
            ("patch", "apps", "deployments", "scale", True),
            ("patch", "surgekit.dev", "combofuncs", "scale", True),
            ("get", "surgekit.dev", "combofuncs", "", True),
            ("create", "surgekit.dev", "burstfunctions", "", True),
            ("patch", "surgekit.dev", "burstfunctions", "", True),
            ("delete", "surgekit.dev", "burstfunctions", "", True),
            ("patch", "surgekit.dev", "burstfunctions", "status", True),
            ("create", "events.k8s.io", "events", "", True),
            # These need the binding of surgekit-burst-templates.
            ("create", "", "pods", "", False),
            ("get", "", "secrets", "", False),
            ("get", "", "configmaps", "", False),
            ("list", "", "pods", "", False),
            ("patch", "apps", "deployments", "", False),
            ("patch", "apps", "statefulsets", "scale", False),
            ("patch", "surgekit.dev", "combofuncs", "", False),
            ("patch", "", "nodes", "", False),
            ("create", "", "serviceaccounts", "token", False),
            ("delete", "", "pods", "", False),
        )
    ),
    ("surgekit-burst-controller", "list", "surgekit.dev", "nodespeeds", "", "", "", True),
    (
        "surgekit-burst-controller",
        "get",
        "",
        "secrets",
        "",
        "surgekit-agents",
        "surgekit-pulselet-tls",
        False,
    ),
    ("surgekit-burst-controller", "create", "coordination.k8s.io", "leases", "", NAMESPACE, "", True),
    *(
        ("surgekit-burst-controller", v, "coordination.k8s.io", "leases", "", NAMESPACE, name, allowed)
        for v in ("get", "update", "patch")
        for name, allowed in (("surgekit-burst-controller", True), (LEASE_NAME, False))
    ),
    *(("surgekit-adapter", v, "surgekit.dev", "kneepolicies", "", "", "", True) for v in READ),
    ("surgekit-adapter", "patch", "surgekit.dev", "kneepolicies", "status", "shop", "", False),
    ("surgekit-adapter", "create", "authorization.k8s.io", "subjectaccessreviews", "", "", "", True),
    ("surgekit-adapter", "get", "", "secrets", "", NAMESPACE, "surgekit-adapter-tls", False),
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
        for s in (
            "surgekit-ca",
            "surgekit-extender-tls",
            "surgekit-expander-tls",
            "surgekit-adapter-tls",
            "surgekit-limit-allocator-tls",
            "surgekit-burst-controller-tls",
            "surgekit-burst-controller-client-tls",
            "surgekit-burst-placement-tls",
        )
    ),
    *(
        ("surgekit-certificates", v, "", "secrets", "", "surgekit-agents", s, allowed)
        for v in ("get", "update")
        for s, allowed in (
            ("surgekit-limit-agent-tls", True),
            ("surgekit-pulselet-tls", True),
            ("another", False),
        )
    ),
    ("surgekit-certificates", "create", "", "secrets", "", "surgekit-agents", "", True),
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
    assert wrong_answers(installed, RIGHTS) == []


def test_the_view_asks_the_extender_only_where_that_was_allowed(installed: Lab) -> None:
    scheduler = "surgekit-scheduler-client-tls"
    rights: list[Right] = [
        ("surgekit-view", "get", "", "secrets", "", NAMESPACE, scheduler, True),
        ("surgekit-view", "list", "", "pods", "", NAMESPACE, "", True),
        ("surgekit-view", "create", "", "pods", "portforward", NAMESPACE, "", True),
        ("surgekit-view", "get", "", "secrets", "", NAMESPACE, "surgekit-extender-tls", False),
        ("surgekit-view", "list", "", "secrets", "", NAMESPACE, "", False),
        ("surgekit-view", "create", "", "pods", "portforward", "shop", "", False),
        ("surgekit-view", "create", "", "pods", "exec", NAMESPACE, "", False),
    ]
    explain = MANIFESTS / "view" / "explain"
    installed.apply(explain)
    try:
        installed.wait_for(lambda: not wrong_answers(installed, rights), "the role to be in force")
    finally:
        installed.kubectl("delete", "-k", explain)
    refused: list[Right] = [(*right[:-1], False) for right in rights if right[1] != "list"]
    installed.wait_for(lambda: not wrong_answers(installed, refused), "the role to be gone")


def wrong_answers(lab: Lab, rights: Sequence[Right]) -> list[tuple[str, dict[str, str], str]]:
    wrong = []
    for account, verb, group, resource, subresource, namespace, name, expected in rights:
        attributes = {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace, "name": name,
        }  # fmt: skip
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
        review = lab.kube.create(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
            },
        )
        if review["status"]["allowed"] != expected:
            wrong.append((account, attributes, "must be allowed" if expected else "must be refused"))
    return wrong


def test_an_agent_has_no_rights(installed: Lab) -> None:
    """Beyond those that every account has: its node is all it touches."""
    name = "system:serviceaccount:surgekit-agents:surgekit-limit-agent"
    for kind in ("rolebindings", "clusterrolebindings"):
        bindings, _ = installed.kube.list_all(f"/apis/rbac.authorization.k8s.io/v1/{kind}")
        bound = [
            b
            for b in bindings
            for s in b.get("subjects") or ()
            if s["name"] in ("surgekit-limit-agent", name)
        ]
        assert bound == []
    path = "/apis/apps/v1/namespaces/surgekit-agents/daemonsets/surgekit-limit-agent"
    pod = installed.kube.get(path)["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert {"hostNetwork", "hostPID", "hostIPC"} & set(pod) == set()
    security = {container["name"]: container["securityContext"] for container in pod["containers"]}
    assert not any(of.get("privileged") or of["allowPrivilegeEscalation"] for of in security.values())
    assert {name: of["capabilities"] for name, of in security.items()} == {
        "agent": {"drop": ["ALL"], "add": ["SYS_RESOURCE"]},
        "guard": {"drop": ["ALL"]},
    }


def test_a_node_cannot_be_changed_by_any_part(installed: Lab) -> None:
    for account in ("surgekit-extender", "surgekit-probe", "surgekit-certificates"):
        kube = Kube.connect(installed.account_kubeconfig(NAMESPACE, account))
        nodes, _ = installed.kube.list_all("/api/v1/nodes")
        with pytest.raises(ApiError, match="403"):
            kube.patch(f"/api/v1/nodes/{nodes[0]['metadata']['name']}", {"metadata": {"labels": {"a": "b"}}})
