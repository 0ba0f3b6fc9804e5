"""A pod as an emergency instance: what is honoured, and what makes the function ineligible."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burst_plane.model import InstanceSpec, Security
from burst_plane.pod import Missing, Reference, Resolved, decoded, read_instance, references
from tests.readers.hostile_objects import spoilt

Json = dict[str, Any]

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "resize-x", "namespace": "shop", "uid": "u", "labels": {"app": "resize"}},
    "spec": {
        "automountServiceAccountToken": False,
        "containers": [
            {
                "name": "resize",
                "image": "registry.example/resize:1",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "64Mi"}},
                "securityContext": {"runAsUser": 1000},
                "terminationMessagePath": "/dev/termination-log",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "terminationGracePeriodSeconds": 30,
    },
}


def pod(container: Json | None = None, **spec: Any) -> Json:
    made = copy.deepcopy(POD)
    made["spec"] |= spec
    if container:
        made["spec"]["containers"][0] |= container
    return made


def read(made: Json, resolved: Resolved | None = None, port: int | str | None = None) -> InstanceSpec:
    return read_instance(made, resolved or {}, port, 300.0)


def test_a_plain_pod() -> None:
    assert read(POD) == InstanceSpec(
        image="registry.example/resize:1", port=8080, cpu_millis=1000, memory_bytes=128 << 20,
        longest_s=300.0, security=Security(uid=1000, gid=0),
    )  # fmt: skip


def test_environment_as_the_kubelet_makes_it() -> None:
    container = {
        "command": ["/bin/run", "$(MODE)"],
        "args": ["$$(MODE)", "$(NONE)", "--in=$(FROM_SECRET)"],
        "envFrom": [
            {"configMapRef": {"name": "all"}, "prefix": "P_"},
            {"secretRef": {"name": "no", "optional": True}},
        ],
        "env": [
            {"name": "MODE", "value": "fast"},
            {"name": "FROM_SECRET", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}},
            {
                "name": "GONE",
                "valueFrom": {"configMapKeyRef": {"name": "all", "key": "zz", "optional": True}},
            },
            {"name": "BOTH", "value": "$(MODE)-$(P_x)"},
            {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        ],
    }
    made = pod(container)
    assert references(made) == [
        Reference("ConfigMap", "all"), Reference("Secret", "keys"), Reference("Secret", "no"),
    ]  # fmt: skip
    spec = read(
        made,
        {
            Reference("ConfigMap", "all"): {"x": "1"},
            Reference("Secret", "keys"): {"a": "s3cret"},
            Reference("Secret", "no"): None,
        },
    )
    assert dict(spec.env) == {
        "P_x": "1", "MODE": "fast", "FROM_SECRET": "s3cret", "BOTH": "fast-1", "NAMESPACE": "shop",
        "APP": "resize",
    }  # fmt: skip
    assert spec.command == ("/bin/run", "fast")
    assert spec.args == ("$(MODE)", "$(NONE)", "--in=s3cret")


def test_pull_secrets_become_one_document() -> None:
    made = pod(imagePullSecrets=[{"name": "one"}, {"name": "two"}, {"name": "bad"}])
    document = {"auths": {"r.example": {"auth": "eA=="}}}
    spec = read(
        made,
        {
            Reference("Secret", "one"): {".dockerconfigjson": json.dumps(document)},
            Reference("Secret", "two"): {".dockercfg": json.dumps({"r.example": {"auth": "other"}, "s": {}})},
            Reference("Secret", "bad"): {".dockerconfigjson": "{"},
        },
    )
    assert json.loads(spec.pull_auth) == {"auths": {"r.example": {"auth": "eA=="}, "s": {}}}


def test_the_security_context_is_kept_and_never_widened() -> None:
    context = {
        "runAsUser": 0, "readOnlyRootFilesystem": True, "seccompProfile": {"type": "Unconfined"},
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    }  # fmt: skip
    of_pod = {"runAsUser": 7, "runAsGroup": 8, "fsGroup": 9, "supplementalGroups": [10]}
    assert read(pod({"securityContext": context}, securityContext=of_pod)).security == Security(
        uid=0,
        gid=8,
        groups=(9, 10),
        capabilities=("CAP_NET_BIND_SERVICE",),
        read_only_root=True,
        seccomp=False,
    )
    as_root = read(pod({"securityContext": {"runAsUser": 0}})).security
    assert "CAP_CHOWN" in as_root.capabilities
    assert not {"CAP_SYS_ADMIN", "CAP_NET_RAW"} & set(as_root.capabilities)
    with pytest.raises(Missing, match="CAP_NET_RAW"):
        read(pod({"securityContext": {"runAsUser": 0, "capabilities": {"add": ["NET_RAW"]}}}))
    assert read(POD).security.capabilities == ()


@pytest.mark.parametrize(
    ("limits", "requests", "millis"),
    [({"cpu": "250m"}, {}, 250), ({}, {"cpu": "3"}, 3000), ({}, {}, 1000), ({"cpu": "1u"}, {}, 1)],
)
def test_the_quota_is_the_limit_or_at_least_a_core(limits: Json, requests: Json, millis: int) -> None:
    resources = {"limits": {"memory": "1Mi"} | limits, "requests": requests}
    assert read(pod({"resources": resources})).cpu_millis == millis


def test_the_port_is_the_services() -> None:
    two = pod({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "b"}]})
    assert read(two, port="b").port == 2
    assert read(two, port=99).port == 99
    for port, why in ((None, "no Service says"), ("c", "none has the name 'c'")):
        with pytest.raises(Missing, match=why):
            read(two, port=port)


TOKEN = {"name": "kube-api-access-abcde", "projected": {}}
ALONE: Json = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"volumes": [{"name": "data", "emptyDir": {}}]}, "volumes[0]: 'data'"),
        ({"volumes": [TOKEN], "automountServiceAccountToken": None}, "automountServiceAccountToken: must"),
        ({"initContainers": [{"name": "x"}]}, "initContainers"),
        ({"hostNetwork": True}, "hostNetwork"),
        ({"hostPID": True}, "hostPID"),
        ({"shareProcessNamespace": True}, "shareProcessNamespace"),
        ({"nodeSelector": {"disk": "ssd"}}, "nodeSelector"),
        ({"runtimeClassName": "gvisor"}, "runtimeClassName"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
        ({"someFieldOfTomorrow": {"a": 1}}, "someFieldOfTomorrow: an emergency instance cannot honour it"),
        ({"containers": []}, "containers: 0"),
        ({"containers": POD["spec"]["containers"] * 2}, "containers: 2"),
        ({"affinity": ALONE}, "affinity.podAntiAffinity: a required one"),
        ({"dnsPolicy": "None"}, "dnsPolicy"),
        ({"securityContext": {"sysctls": [{"name": "a"}]}}, "securityContext.sysctls"),
    ],
)
def test_what_of_a_pod_cannot_be_honoured_is_named(spec: Json, why: str) -> None:
    with pytest.raises(Missing) as caught:
        read(pod(**spec))
    assert str(caught.value).startswith(f"spec.{why}")


def limits(**more: str) -> Json:
    return {"resources": {"limits": {"memory": "1Mi"} | more}}


def secured(**context: Any) -> Json:
    return {"securityContext": {"runAsUser": 1} | context}


def variable(**source: Any) -> Json:
    return {"env": [{"name": "A", "valueFrom": source}]}


@pytest.mark.parametrize(
    ("container", "why"),
    [
        ({"volumeMounts": [{"name": "x"}]}, "volumeMounts"),
        ({"lifecycle": {"preStop": {}}}, "lifecycle"),
        (limits(**{"nvidia.com/gpu": "1"}), "resources.limits.nvidia.com/gpu"),
        (limits(**{"hugepages-2Mi": "2Mi"}), "resources.limits.hugepages-2Mi"),
        ({"resources": {}}, "resources.limits.memory: must be set"),
        ({"securityContext": {}}, "securityContext.runAsUser: must be set"),
        (secured(privileged=True), "securityContext.privileged"),
        (secured(allowPrivilegeEscalation=True), "securityContext.allowPrivilegeEscalation"),
        (secured(capabilities={"add": ["SYS_ADMIN"]}), "securityContext.capabilities.add: CAP_SYS_ADMIN"),
        (secured(procMount="Unmasked"), "securityContext.procMount"),
        (secured(seccompProfile={"type": "Localhost"}), "securityContext.seccompProfile"),
        (secured(runAsUser=-1), "securityContext: user and groups"),
        (variable(fieldRef={"fieldPath": "status.podIP"}), "env[0].valueFrom.fieldRef.fieldPath: 'status"),
        (variable(resourceFieldRef={}), "env[0].valueFrom: "),
        (variable(secretKeyRef={"name": "s", "key": "k"}), "env[0].valueFrom.secretKeyRef: Secret 's'"),
        ({"envFrom": [{"secretRef": {"name": "s"}}]}, "envFrom[0].secretRef: there is no Secret 's'"),
        ({"env": [{"name": "A", "value": "x" * (256 << 10)}]}, "env, command, args: more than 256 KiB"),
        ({"args": ["x" * (200 << 10), "x" * (57 << 10)]}, "env, command, args: more than 256 KiB"),
        (
            {"env": [{"name": "A", "value": "x" * 1000}], "args": ["$(A)"] * 300},
            "env, command, args: more than 256 KiB",
        ),
        # Expanded, it would be 1 TB.
        (
            {
                "env": [
                    {"name": "A0", "value": "x" * 1000},
                    *({"name": f"A{i}", "value": f"$(A{i - 1})" * 1000} for i in range(1, 4)),
                ]
            },
            "env, command, args: more than 256 KiB",
        ),
    ],
)
def test_what_of_a_container_cannot_be_honoured_is_named(container: Json, why: str) -> None:
    with pytest.raises(Missing) as caught:
        read(pod(container))
    assert str(caught.value).startswith(f"spec.containers[0].{why}")


def test_the_pull_policy_is_kept() -> None:
    assert read(pod({"imagePullPolicy": "Always"})).always_pull
    assert not read(pod({"imagePullPolicy": "IfNotPresent"})).always_pull


def test_pull_secrets_are_bounded() -> None:
    made = pod(imagePullSecrets=[{"name": "one"}])
    document = {"auths": {f"r{i}.example": {"auth": "x" * 1000} for i in range(300)}}
    with pytest.raises(Missing, match="imagePullSecrets: more than 256 KiB"):
        read(made, {Reference("Secret", "one"): {".dockerconfigjson": json.dumps(document)}})


def test_the_number_of_references_is_bounded() -> None:
    many = [{"secretRef": {"name": f"s{i}"}} for i in range(40)]
    with pytest.raises(Missing, match="40 ConfigMaps and Secrets"):
        references(pod({"envFrom": many}))


@settings(max_examples=60)
@given(spoilt(pod({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]})))
def test_whatever_a_pod_holds_it_is_read_or_refused(made: Json) -> None:
    resolved = {Reference("Secret", "s"): {"k": "v"}}
    try:
        references(made)
        spec = read(made, resolved)
    except Missing:
        return
    assert spec.memory_bytes >= 0
    assert spec.template


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.text(max_size=9), st.integers())))
def test_a_secret_of_nonsense_has_no_data(data: dict[str, Any]) -> None:
    assert all(isinstance(value, str) for value in decoded({"data": data}).values())


def test_the_template_names_the_spec_and_no_secret() -> None:
    one, other = read(POD), read(pod({"env": [{"name": "A", "value": "s3cret"}]}))
    assert one.template != other.template
    assert "s3cret" not in other.template
