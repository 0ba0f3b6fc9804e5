"""The pod of a Knative revision without Knative's own parts of it. Pure.

Admission has seen the whole pod. An emergency instance is the function's own container: HAProxy talks to it
directly, it serves one request, and the node agent ends it, so nothing of queue-proxy's work is left to do.
"""

from __future__ import annotations

from typing import Any

__all__ = ["without_queue_proxy"]

Json = dict[str, Any]
_QUEUE_PROXY = "queue-proxy"  # Knative refuses other containers of this name
_QUEUE_ADMIN_PORT = 8022  # where a preStop hook of Knative waits until queue-proxy has drained


def without_queue_proxy(pod: Json) -> Json:
    spec = pod["spec"]
    kept = [_without_hook(of) for of in spec["containers"] if of.get("name") != _QUEUE_PROXY]
    gone = [of for of in spec["containers"] if of.get("name") == _QUEUE_PROXY]
    # Tokens, certificates and annotations that only queue-proxy reads.
    its_own = _mounted(gone) - _mounted(kept)
    volumes = [of for of in spec.get("volumes") or () if of.get("name") not in its_own]
    return pod | {"spec": spec | {"containers": kept, "volumes": volumes}}


def _without_hook(container: Json) -> Json:
    hooks = container.get("lifecycle") or {}
    stop = hooks.get("preStop") or {}
    if set(hooks) == {"preStop"} and (stop.get("httpGet") or {}).get("port") == _QUEUE_ADMIN_PORT:
        return {key: value for key, value in container.items() if key != "lifecycle"}
    return container


def _mounted(containers: list[Json]) -> set[str]:
    return {str(mount.get("name")) for of in containers for mount in of.get("volumeMounts") or ()}
