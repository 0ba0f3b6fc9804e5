"""Parse ExtenderArgs, the body that kube-scheduler sends: with node names (nodeCacheCapable) or whole
nodes.

Only the fields declared here are decoded and checked. All other fields of pods and nodes are skipped.
"""

from __future__ import annotations

from typing import Any, Required, TypedDict, cast

import msgspec

from surgekit.kube.pods import PodError

__all__ = ["BAD_REQUEST", "ExtenderArgs", "RequestError", "parse"]

Amounts = dict[str, str | int | float]


class _Metadata(TypedDict, total=False):
    uid: Required[str]
    name: str
    namespace: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None


class _Resources(TypedDict, total=False):
    requests: Amounts | None


class _Container(TypedDict, total=False):
    name: str
    image: str | None
    resources: _Resources | None
    restartPolicy: str | None


class _PodSpec(TypedDict, total=False):
    schedulerName: str
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    resources: _Resources | None
    overhead: Amounts | None


class _Pod(TypedDict, total=False):
    metadata: Required[_Metadata]
    spec: _PodSpec | None


class _NodeMetadata(TypedDict):
    name: str


class _Node(TypedDict):
    metadata: _NodeMetadata


class _NodeList(TypedDict, total=False):
    items: list[_Node] | None


class _Args(msgspec.Struct):
    Pod: _Pod
    NodeNames: frozenset[str] | None = None
    Nodes: _NodeList | None = None


class RequestError(ValueError):
    """The body breaks the extender contract; the message names the field."""


class ExtenderArgs(msgspec.Struct, frozen=True):
    pod: dict[str, Any]
    node_names: frozenset[str]


# PodError is a fault inside the pod. Both are answered with 400.
BAD_REQUEST = (RequestError, PodError)
_decode = msgspec.json.Decoder(_Args).decode


def parse(body: bytes) -> ExtenderArgs:
    try:
        args = _decode(body)
    # RecursionError: nested too deeply. UnicodeDecodeError: text that is not UTF-8.
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError(f"body: {error}") from error
    pod = cast(dict[str, Any], args.Pod)
    if args.NodeNames is not None:
        return ExtenderArgs(pod, args.NodeNames)
    if args.Nodes is not None:
        return ExtenderArgs(pod, frozenset(n["metadata"]["name"] for n in args.Nodes.get("items") or ()))
    raise RequestError("body: neither NodeNames nor Nodes is set")
