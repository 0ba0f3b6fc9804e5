"""Reads the pod that a dry-run create returned: an InstanceSpec, or why the function is not eligible. Pure.

The pod is the truth: admission has defaulted, mutated and allowed it. A field that is not listed here is one
that an emergency instance cannot honour, so a field of a later Kubernetes makes a function ineligible and is
not silently dropped.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from burst_plane.model import InstanceSpec, Security
from surgekit.kube.quantity import QuantityError, parse

__all__ = ["Missing", "Reference", "Resolved", "decoded", "read_instance", "references"]

Json = dict[str, Any]

# Without meaning for an instance of one request: how the pod is scheduled, watched and stopped.
_POD_FIELDS = frozenset(
    {
        "containers", "securityContext", "imagePullSecrets", "restartPolicy", "terminationGracePeriodSeconds",
        "serviceAccountName", "serviceAccount", "schedulerName", "tolerations", "priority",
        "priorityClassName", "preemptionPolicy", "enableServiceLinks", "topologySpreadConstraints",
        "schedulingGates",
    }
)  # fmt: skip
_CONTAINER_FIELDS = frozenset(
    {
        "name", "image", "command", "args", "workingDir", "ports", "env", "envFrom", "resources",
        "securityContext", "livenessProbe", "readinessProbe", "startupProbe", "terminationMessagePath",
        "terminationMessagePolicy", "imagePullPolicy", "resizePolicy",
    }
)  # fmt: skip
_POD_SECURITY = frozenset(
    {
        "runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups", "fsGroup", "fsGroupChangePolicy",
        "seccompProfile",
    }
)  # fmt: skip
_CONTAINER_SECURITY = frozenset(
    {
        "runAsUser", "runAsGroup", "runAsNonRoot", "allowPrivilegeEscalation", "privileged", "capabilities",
        "readOnlyRootFilesystem", "seccompProfile",
    }
)  # fmt: skip
_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
# What containerd gives a container whose spec says nothing, without NET_RAW (oci_spec.py says why); effective
# for user 0 only.
_DEFAULT_CAPABILITIES = frozenset(
    f"CAP_{name}"
    for name in (
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "SETGID", "SETUID", "SETFCAP",
        "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    )
)  # fmt: skip
_UNLIMITED_CPU_MILLIS = 1000  # a quota for a container without a CPU limit
_LARGEST_BYTES = 256 << 10  # of environment, command and arguments together; and of pull secrets
_MOST_REFERENCES = 32
_SHOWN = 100
_ENV_NAME = re.compile(r"[^=\x00]{1,256}")
_VARIABLE = re.compile(r"\$\$|\$\(([^()$\x00]{1,256})\)")


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A ConfigMap or Secret that the pod's environment or image needs."""

    kind: str
    name: str


# What was read: data as text; None: it is not there.
Resolved = Mapping[Reference, Mapping[str, str] | None]


class Missing(ValueError):
    """The pod cannot be stood in for. The message names the field."""


def references(pod: Json) -> list[Reference]:
    """What must be read before `read_instance`. Raises Missing for a pod that names too much."""
    found: set[Reference] = set()
    for where, source in _sources(pod):
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            for key in (f"{field}Ref", f"{field}KeyRef"):
                if isinstance(source.get(key), dict):
                    found.add(Reference(kind, _text(f"{where}.{key}.name", source[key].get("name"))))
    for i, secret in enumerate(_list("spec.imagePullSecrets", _spec(pod).get("imagePullSecrets"))):
        name = secret.get("name") if isinstance(secret, dict) else None
        found.add(Reference("Secret", _text(f"spec.imagePullSecrets[{i}].name", name)))
    if len(found) > _MOST_REFERENCES:
        raise Missing(f"spec: {len(found)} ConfigMaps and Secrets; at most {_MOST_REFERENCES} are read")
    return sorted(found)


def read_instance(pod: Json, resolved: Resolved, port: int | str | None, longest_s: float) -> InstanceSpec:
    """`port` is the target port of the function's Service. Raise Missing."""
    try:
        return _read(pod, resolved, port, longest_s)
    except (TypeError, AttributeError, KeyError) as error:  # a field of another type than Kubernetes has
        raise Missing(f"the pod cannot be read: {type(error).__name__}: {error}"[:300]) from error


def _read(pod: Json, resolved: Resolved, port: int | str | None, longest_s: float) -> InstanceSpec:
    spec = _spec(pod)
    _check_pod(spec)
    container = spec["containers"][0]
    where = "spec.containers[0]"
    _check_container(container, where)
    limits = (container.get("resources") or {}).get("limits") or {}
    requests = (container.get("resources") or {}).get("requests") or {}
    if "memory" not in limits:
        raise Missing(f"{where}.resources.limits.memory: must be set: it is the instance's limit")
    texts = _Bounded(where)
    env = _environment(pod, container, resolved, where, texts)

    def expanded(key: str) -> tuple[str, ...]:
        words = _list(f"{where}.{key}", container.get(key))
        return tuple(texts.expanded(_text(f"{where}.{key}", word, empty=True), env) for word in words)

    cpu = limits.get("cpu")
    cpu_millis = (
        _amount(f"{where}.resources.limits.cpu", cpu, 1000)
        if cpu is not None
        else max(
            _amount(f"{where}.resources.requests.cpu", requests.get("cpu", 0), 1000), _UNLIMITED_CPU_MILLIS
        )
    )
    return InstanceSpec(
        image=_text(f"{where}.image", container.get("image")),
        command=expanded("command"),
        args=expanded("args"),
        env=tuple(env.items()),
        working_directory=_text(f"{where}.workingDir", container.get("workingDir", ""), empty=True),
        port=_port(container, port, where),
        cpu_millis=max(cpu_millis, 1),
        memory_bytes=_amount(f"{where}.resources.limits.memory", limits["memory"], 1),
        security=_security(spec, container, where),
        pull_auth=_pull_auth(spec, resolved),
        always_pull=container.get("imagePullPolicy") == "Always",
        longest_s=longest_s,
    )


# What cannot be honoured


def _check_pod(spec: Json) -> None:
    containers = _list("spec.containers", spec.get("containers"))
    if len(containers) != 1 or not isinstance(containers[0], dict):
        raise Missing(f"spec.containers: {len(containers)}; an emergency instance is one container")
    for i, volume in enumerate(_list("spec.volumes", spec.get("volumes"))):
        name = str(volume.get("name") if isinstance(volume, dict) else "")
        if name.startswith("kube-api-access-"):
            raise Missing(
                "spec.automountServiceAccountToken: must be false: an emergency instance gets no token"
            )
        raise Missing(f"spec.volumes[{i}]: {name[:_SHOWN]!r}: an emergency instance has no volumes")
    if spec.get("dnsPolicy", "ClusterFirst") not in ("ClusterFirst", "Default"):
        raise Missing("spec.dnsPolicy: only ClusterFirst and Default can be honoured")
    affinity = spec.get("affinity") or {}
    for kind in affinity:
        if any(key.startswith("required") for key in affinity[kind] or {}):
            raise Missing(f"spec.affinity.{str(kind)[:_SHOWN]}: a required one cannot be honoured")
    if (spec.get("os") or {}).get("name", "linux") != "linux":
        raise Missing("spec.os.name: must be linux")
    # Their default values are what an instance has anyway.
    fine = {"dnsPolicy", "affinity", "os", "volumes", "automountServiceAccountToken"}
    _check_fields("spec", spec, _POD_FIELDS | fine)
    _check_fields("spec.securityContext", spec.get("securityContext") or {}, _POD_SECURITY)


def _check_container(container: Json, where: str) -> None:
    _check_fields(where, container, _CONTAINER_FIELDS)
    security = container.get("securityContext") or {}
    _check_fields(f"{where}.securityContext", security, _CONTAINER_SECURITY)
    for key in ("privileged", "allowPrivilegeEscalation"):
        if security.get(key):
            raise Missing(f"{where}.securityContext.{key}: must not be true")
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        for name in resources.get(kind) or {}:
            if name not in _RESOURCES:
                raise Missing(
                    f"{where}.resources.{kind}.{name[:_SHOWN]}: an emergency instance has no devices"
                )
    _check_fields(f"{where}.resources", resources, frozenset({"limits", "requests"}))


def _check_fields(where: str, of: Json, known: frozenset[str]) -> None:
    for field, value in of.items():
        if field not in known and value not in (None, "", [], {}, False):
            raise Missing(f"{where}.{field[:_SHOWN]}: an emergency instance cannot honour it")


# What is honoured


def _security(spec: Json, container: Json, where: str) -> Security:
    of_pod, own = spec.get("securityContext") or {}, container.get("securityContext") or {}
    merged = of_pod | {key: value for key, value in own.items() if value is not None}
    uid, gid = merged.get("runAsUser"), merged.get("runAsGroup", 0)
    if uid is None:
        raise Missing(f"{where}.securityContext.runAsUser: must be set: the image's user is not known here")
    groups = [*(of_pod.get("supplementalGroups") or ()), of_pod.get("fsGroup")]
    numbers = [uid, gid, *(group for group in groups if group is not None)]
    if any(isinstance(n, bool) or not isinstance(n, int) or not 0 <= n < 1 << 31 for n in numbers):
        raise Missing(f"{where}.securityContext: user and groups must be numbers from 0 to 2^31-1")
    profile = (merged.get("seccompProfile") or {}).get("type", "RuntimeDefault")
    if profile not in ("RuntimeDefault", "Unconfined"):
        raise Missing(
            f"{where}.securityContext.seccompProfile.type: {str(profile)[:_SHOWN]!r} cannot be honoured"
        )
    return Security(
        uid=uid,
        gid=gid,
        groups=tuple(sorted(set(numbers[2:]))),
        capabilities=_capabilities(own.get("capabilities") or {}, uid, where),
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        seccomp=profile == "RuntimeDefault",
    )


def _capabilities(said: Json, uid: int, where: str) -> tuple[str, ...]:
    """What the pod's container would have, and never more than a plain one has."""

    def names(key: str) -> set[str]:
        return {f"CAP_{str(name).upper().removeprefix('CAP_')}" for name in said.get(key) or ()}

    added, dropped = names("add"), names("drop")
    if beyond := sorted(added - _DEFAULT_CAPABILITIES):
        raise Missing(f"{where}.securityContext.capabilities.add: {beyond[0][:_SHOWN]} cannot be honoured")
    if uid != 0:
        return ()
    kept = frozenset() if "CAP_ALL" in dropped else _DEFAULT_CAPABILITIES - dropped
    return tuple(sorted(kept | added))


def _environment(
    pod: Json, container: Json, resolved: Resolved, where: str, texts: _Bounded
) -> dict[str, str]:
    """As the kubelet makes it: envFrom first, then env in its order, with $(NAME) expanded."""
    env: dict[str, str] = {}
    for i, source in enumerate(_list(f"{where}.envFrom", container.get("envFrom"))):
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if key not in source:
                continue
            reference = source[key]
            data = resolved.get(Reference(kind, reference["name"]))
            if data is None and not reference.get("optional"):
                raise Missing(
                    f"{where}.envFrom[{i}].{key}: there is no {kind} {reference['name'][:_SHOWN]!r}"
                )
            prefix = source.get("prefix") or ""
            added = {prefix + n: value for n, value in (data or {}).items() if _ENV_NAME.fullmatch(n)}
            texts.count(sum(_size(n) + _size(value) for n, value in added.items()))
            env |= added
    for i, one in enumerate(_list(f"{where}.env", container.get("env"))):
        name = _text(f"{where}.env[{i}].name", one.get("name"))
        if (source := one.get("valueFrom")) is None:
            text = _text(f"{where}.env[{i}].value", one.get("value", ""), empty=True)
            texts.count(_size(name))
            env[name] = texts.expanded(text, env)
        elif (value := _from_source(pod, source, resolved, f"{where}.env[{i}].valueFrom")) is not None:
            texts.count(_size(name) + _size(value))
            env[name] = value
    if any("\0" in value for value in env.values()):
        raise Missing(f"{where}.env: a value holds a NUL character")
    return env


def _from_source(pod: Json, source: Json, resolved: Resolved, where: str) -> str | None:
    """None: an optional key that is not there."""
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if key in source:
            reference = source[key]
            data = resolved.get(Reference(kind, reference["name"])) or {}
            value = data.get(reference["key"])
            if value is None and not reference.get("optional"):
                named = f"{kind} {reference['name'][:_SHOWN]!r}"
                raise Missing(f"{where}.{key}: {named} has no key {reference['key'][:_SHOWN]!r}")
            return value
    if "fieldRef" in source:
        return _from_field(
            pod, _text(f"{where}.fieldRef.fieldPath", source["fieldRef"].get("fieldPath")), where
        )
    raise Missing(f"{where}: {sorted(source)[:1]} cannot be honoured")


def _from_field(pod: Json, path: str, where: str) -> str:
    """What does not depend on the pod that this is not."""
    metadata = pod.get("metadata") or {}
    readers: dict[str, Callable[[], object]] = {
        "metadata.namespace": lambda: metadata.get("namespace"),
        "spec.serviceAccountName": lambda: _spec(pod).get("serviceAccountName"),
    }
    found = re.fullmatch(r"metadata\.(labels|annotations)\['([^']{1,317})'\]", path)
    if found:
        return str((metadata.get(found[1]) or {}).get(found[2], ""))
    if path not in readers:
        raise Missing(f"{where}.fieldRef.fieldPath: {path[:_SHOWN]!r}: an emergency instance is no pod")
    return str(readers[path]() or "")


class _Bounded:
    """Texts that are bounded together. What was expanded may be expanded again, so a template of a few KiB
    could ask for more than all memory: a size is known before its text is made."""

    def __init__(self, where: str) -> None:
        self._where, self._left = where, _LARGEST_BYTES

    def count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise Missing(f"{self._where}.env, command, args: more than {_LARGEST_BYTES >> 10} KiB in all")

    def expanded(self, text: str, env: Mapping[str, str]) -> str:
        """$(NAME) is replaced if it is known, $$ is a dollar sign, as the kubelet has it."""

        def replaced(found: re.Match[str]) -> str:
            return "$" if found[0] == "$$" else env.get(found[1], found[0])

        self.count(_size(text) + sum(_size(replaced(found)) for found in _VARIABLE.finditer(text)))
        return _VARIABLE.sub(replaced, text)


def _size(text: str) -> int:
    """At least its bytes."""
    return len(text) if text.isascii() else 4 * len(text)


def _port(container: Json, port: int | str | None, where: str) -> int:
    ports = [p for p in _list(f"{where}.ports", container.get("ports")) if p.get("protocol", "TCP") == "TCP"]
    if isinstance(port, int):
        return port
    if isinstance(port, str):
        named = [p["containerPort"] for p in ports if p.get("name") == port]
        if not named:
            raise Missing(f"{where}.ports: none has the name {port[:_SHOWN]!r}, which the Service asks for")
        return int(named[0])
    if len(ports) != 1:
        raise Missing(f"{where}.ports: {len(ports)}, and no Service says which one takes requests")
    return int(ports[0]["containerPort"])


def _pull_auth(spec: Json, resolved: Resolved) -> str:
    """The documents of all secrets in one; the first one that names a registry holds, as in the kubelet."""
    auths: dict[str, Any] = {}
    for secret in _list("spec.imagePullSecrets", spec.get("imagePullSecrets")):
        data = resolved.get(Reference("Secret", secret["name"])) or {}
        for key in (".dockerconfigjson", ".dockercfg"):
            if key not in data:
                continue
            try:
                document = json.loads(data[key])
            except (ValueError, RecursionError):
                continue  # as in the kubelet, a secret that is none is left out
            found = (
                document.get("auths")
                if key == ".dockerconfigjson" and isinstance(document, dict)
                else document
            )
            auths = (found if isinstance(found, dict) else {}) | auths
    document = json.dumps({"auths": auths}, sort_keys=True) if auths else ""
    if len(document) > _LARGEST_BYTES:
        raise Missing(f"spec.imagePullSecrets: more than {_LARGEST_BYTES >> 10} KiB in all")
    return document


def decoded(secret: Json) -> dict[str, str]:
    """A Secret's data as text. What is no text has no place in an environment."""
    result = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            result[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError, TypeError):
            continue
    return result


def _sources(pod: Json) -> Iterator[tuple[str, Json]]:
    for c, container in enumerate(_list("spec.containers", _spec(pod).get("containers"))):
        if not isinstance(container, dict):
            continue
        where = f"spec.containers[{c}]"
        for i, source in enumerate(_list(f"{where}.envFrom", container.get("envFrom"))):
            if isinstance(source, dict):
                yield f"{where}.envFrom[{i}]", source
        for i, one in enumerate(_list(f"{where}.env", container.get("env"))):
            if isinstance(one, dict) and isinstance(one.get("valueFrom"), dict):
                yield f"{where}.env[{i}].valueFrom", one["valueFrom"]


def _spec(pod: Json) -> Json:
    spec = pod.get("spec") if isinstance(pod, dict) else None
    if not isinstance(spec, dict):
        raise Missing("spec: must be an object")
    return spec


def _list(where: str, value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Missing(f"{where}: must be a list")
    return value


def _text(where: str, value: object, *, empty: bool = False) -> str:
    if not isinstance(value, str) or not (value or empty):
        raise Missing(f"{where}: must be a text")
    return value


def _amount(where: str, value: object, unit: int) -> int:
    try:
        return int(parse(value) * unit)
    except QuantityError as error:
        raise Missing(f"{where}: {error}") from error
