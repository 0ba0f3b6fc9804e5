"""What kube-scheduler sends: ExtenderArgs, with node names (nodeCacheCapable) or whole nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from surgekit.pods import PodError

__all__ = ["ExtenderArgs", "RequestError", "parse"]


class RequestError(ValueError):
    """Not what the extender contract says; the message names the field."""


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    pod: dict[str, Any]
    node_names: list[str]
    nodes: dict[str, Any] | None  # the NodeList as it came, when whole nodes were sent


def parse(body: bytes) -> ExtenderArgs:
    try:
        args = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"body is not JSON: {error}") from error
    if not isinstance(args, dict):
        raise RequestError(f"body: expected an object, got {type(args).__name__}")
    pod = args.get("Pod")
    if not isinstance(pod, dict) or not isinstance(pod.get("metadata"), dict):
        raise RequestError("Pod: expected a pod object with metadata")
    if not isinstance(pod["metadata"].get("uid"), str):
        raise RequestError("Pod.metadata.uid: expected a string")
    names, nodes = args.get("NodeNames"), args.get("Nodes")
    if names is not None:
        if not isinstance(names, list) or not set(map(type, names)) <= {str}:
            raise RequestError("NodeNames: expected a list of strings")
        return ExtenderArgs(pod, names, None)
    if not isinstance(nodes, dict):
        raise RequestError("NodeNames or Nodes: one of them must be there")
    try:
        items = nodes.get("items") or []
        return ExtenderArgs(pod, [n["metadata"]["name"] for n in items], nodes)
    except (KeyError, TypeError) as error:
        raise RequestError("Nodes.items[].metadata.name: expected a string in every item") from error


# PodError says what is wrong inside the pod; to the caller both are a bad request.
BAD_REQUEST = (RequestError, PodError)
