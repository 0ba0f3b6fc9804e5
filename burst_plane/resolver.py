"""Asks the API server what a function's pods would be, and what their environment and image need.

The pod comes from a dry-run create, so admission has had its say: pod security, ValidatingAdmissionPolicies,
ResourceQuota, mutation. What would refuse a regular pod refuses the emergency instances, too.
"""

from __future__ import annotations

from typing import Any

import structlog

from burst_plane.burst_function import BurstFunction
from burst_plane.egress import EgressPolicy, forbidding
from burst_plane.functions import Resolution
from burst_plane.knative.pod import without_queue_proxy
from burst_plane.knative.route import Route
from burst_plane.pod import Missing, Reference, decoded, read_instance, references
from surgekit.kube.api_path import InvalidPath, Resource
from surgekit.kube.client import ApiError, Kube
from surgekit.wire.messages import encode

__all__ = ["ROLE", "Resolver"]

log = structlog.get_logger(__name__)
Json = dict[str, Any]

ROLE = "surgekit-burst-templates"  # the ClusterRole that a namespace's admin binds to let us in
_PODS = Resource("v1", "pods")
_REFERENCES = {"ConfigMap": Resource("v1", "configmaps"), "Secret": Resource("v1", "secrets")}
_TARGETS = {
    ("apps/v1", "Deployment"): Resource("apps/v1", "deployments"),
    ("surgekit.dev/v1alpha1", "ComboFunc"): Resource("surgekit.dev/v1alpha1", "combofuncs"),
}
_LONGEST_MESSAGE = 500
_REVISION_UID = "serving.knative.dev/revisionUID"  # label of what Knative makes for a revision
_USER_PORT = "user-port"  # Knative's name for the port of the function's own container
_SPEEDS = Resource("surgekit.dev/v1alpha1", "nodespeeds").path()


class Resolver:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def resolve(
        self,
        function: BurstFunction,
        port: int | str | None,
        policies: list[EgressPolicy],
        revision: Route | None = None,
    ) -> Resolution:
        """`revision` is a Knative target's. Raise KubeUnreachable, or ApiError if the API server is at
        fault."""
        try:
            return self._resolve(function, port, policies, revision)
        except _Refused as refused:
            return Resolution(None, refused.reason, str(refused)[:_LONGEST_MESSAGE])
        except (Missing, InvalidPath) as error:
            return Resolution(None, "CannotBeHonoured", str(error)[:_LONGEST_MESSAGE])
        except (TypeError, AttributeError, KeyError, ValueError) as error:  # a field of another type
            why = f"its pod cannot be read: {type(error).__name__}: {error}"
            return Resolution(None, "CannotBeHonoured", why[:_LONGEST_MESSAGE])

    def speeds(self) -> dict[str, float]:
        """Creations a second of each node, relative to the mean; empty where no probe measures."""
        try:
            objects, _ = self._kube.list_all(_SPEEDS)
        except ApiError as error:  # without them all nodes count as equally fast
            log.info("no node speeds", error=str(error))
            return {}
        taus = {}
        for obj in objects:
            tau = (obj.get("status") or {}).get("tauCreateSeconds")
            if isinstance(tau, int | float) and 0 < tau < 1e5:
                taus[str(obj["metadata"]["name"])] = float(tau)
        mean = sum(1 / tau for tau in taus.values()) / len(taus) if taus else 1.0
        return {node: round(1 / tau / mean, 3) for node, tau in taus.items()}

    def _resolve(
        self,
        function: BurstFunction,
        port: int | str | None,
        policies: list[EgressPolicy],
        revision: Route | None,
    ) -> Resolution:
        template = self._template_of(revision) if revision else self._template(function)
        pod = self._dry_run(function, template)
        if revision:
            pod, port = without_queue_proxy(pod), _USER_PORT
        labels = (pod.get("metadata") or {}).get("labels") or {}
        if why := forbidding(policies, labels):
            raise _Refused("EgressPolicy", why)
        resolved = {of: self._data(function.function.namespace, of) for of in references(pod)}
        spec = read_instance(pod, resolved, port, function.longest_s)
        said = "emergency instances can stand in for its pods"
        return Resolution(spec, "Eligible", said, spec.template, len(encode(spec)))

    def _template(self, function: BurstFunction) -> Json:
        target = function.target
        resource = _TARGETS.get((target.api_version, target.kind))
        if resource is None:
            raise _Refused(
                "NoTarget", f"spec.targetRef: {target.kind} of {target.api_version} is not supported"
            )
        try:
            obj = self._kube.get(resource.path(target.namespace, target.name))
        except ApiError as error:
            raise self._or_refused(error, "NoTarget") from error
        return _template(obj, f"{target.kind} {target.name}")

    def _template_of(self, revision: Route) -> Json:
        """Of the Deployment that Knative made for the revision; its name may be shortened."""
        path = Resource("apps/v1", "deployments").path(revision.namespace)
        found, _ = self._kube.list_all(path, labelSelector=f"{_REVISION_UID}={revision.uid}")
        for obj in found:
            owners = obj["metadata"].get("ownerReferences") or ()
            if any(owner["uid"] == revision.uid for owner in owners):
                return _template(obj, f"the Deployment of Revision {revision.revision}")
        raise _Refused("NoTarget", f"Revision {revision.revision} has no Deployment")

    def _dry_run(self, function: BurstFunction, template: Json) -> Json:
        metadata = template.get("metadata") or {}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{function.function.name[:50]}-",
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
            },
            "spec": template["spec"],
        }
        try:
            return self._kube.create(_PODS.path(function.function.namespace), body, dryRun="All")
        except ApiError as error:
            raise self._or_refused(error, "Refused") from error

    def _data(self, namespace: str, reference: Reference) -> dict[str, str] | None:
        try:
            obj = self._kube.get(_REFERENCES[reference.kind].path(namespace, reference.name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise self._or_refused(error, "NotAllowed") from error
        if reference.kind == "Secret":
            return decoded(obj)
        return {k: v for k, v in (obj.get("data") or {}).items() if isinstance(v, str)}

    @staticmethod
    def _or_refused(error: ApiError, reason: str) -> Exception:
        """What the API server says about the object. Its own faults are tried again."""
        if error.code == 403 and "surgekit-burst-controller" in error.message and "cannot" in error.message:
            bind = f"bind ClusterRole {ROLE} in the namespace to let the controller look"
            return _Refused("NotAllowed", f"{error.message}; {bind}")
        if error.code == 404:
            return _Refused(reason, error.message or "not found")
        if 400 <= error.code < 500 and error.code not in (408, 429):
            return _Refused(reason, error.message)
        return error


def _template(obj: Json, whose: str) -> Json:
    template = (obj.get("spec") or {}).get("template")
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise _Refused("NoTarget", f"{whose} has no pod template")
    return template


class _Refused(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
