"""Create and delete pods by the hundred, for experiments."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kwok.waiting import wait_for
from surgekit.kube.client import ApiError, Kube

__all__ = ["create_pods", "delete_namespace", "delete_pods", "pod", "wait_for_account"]

_AT_ONCE = 8


def pod(
    name: str,
    cpu: str,
    memory: str,
    image: str = "registry.example/app:1",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name.rpartition("-")[0], **(labels or {})}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [
                {"name": "app", "image": image, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            ],
            **spec,
        },
    }


def create_pods(
    kube: Kube, namespace: str, count: int, cpu: str, memory: str, *, prefix: str = "pod", **rest: Any
) -> list[str]:
    """Create `count` pods in parallel and return their names; `rest` goes to `pod`."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    names = [f"{prefix}-{i:05d}" for i in range(count)]
    wait_for_account(kube, namespace)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda name: kube.create(path, pod(name, cpu, memory, **rest)), names))
    return names


def wait_for_account(kube: Kube, namespace: str, timeout_s: float = 90.0) -> None:
    """Wait for the namespace's default service account: admission refuses pods until it exists."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_for(lambda: kube.get(account), f"the default account of {namespace}", timeout_s)


def delete_pods(kube: Kube, namespace: str, timeout_s: float = 120.0, **selectors: str) -> None:
    """Delete the pods of a namespace and wait until they are gone."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    pods, _ = kube.list_all(path, **selectors)
    # Parallel single deletes: the API server deletes the pods of a collection one after the other.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda p: _delete(kube, f"{path}/{p['metadata']['name']}"), pods))
    wait_for(lambda: not kube.get(path, limit=1, **selectors)["items"], f"an empty {namespace}", timeout_s)


def _delete(kube: Kube, path: str) -> None:
    try:
        kube.delete(path, gracePeriodSeconds=0)
    except ApiError as error:
        if error.code != 404:
            raise


def delete_namespace(kube: Kube, namespace: str) -> None:
    delete_pods(kube, namespace)
    kube.delete(f"/api/v1/namespaces/{namespace}")
