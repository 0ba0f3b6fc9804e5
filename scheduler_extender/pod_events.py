"""Decode the events of the watch of pods: only the fields that are read of a pod.

A third of a pod is `managedFields`. To skip that and the rest takes less than half the time of decoding
everything, and there are two events for each pod that is placed.
"""

from __future__ import annotations

from typing import Any, TypedDict, cast

import msgspec
import orjson

__all__ = ["decode"]

# Values are not checked here: readers do that, and name what is wrong.


class _Metadata(TypedDict, total=False):
    uid: Any
    namespace: Any
    name: Any
    resourceVersion: Any


class _Container(TypedDict, total=False):
    name: Any
    resources: Any
    restartPolicy: Any


class _Spec(TypedDict, total=False):
    nodeName: Any
    containers: list[_Container] | None
    initContainers: list[_Container] | None
    resources: Any
    overhead: Any


class _ContainerStatus(TypedDict, total=False):
    name: Any
    state: Any
    restartCount: Any
    resources: Any
    allocatedResources: Any


class _Condition(TypedDict, total=False):
    type: Any
    reason: Any


class _Status(TypedDict, total=False):
    phase: Any
    conditions: list[_Condition] | None
    containerStatuses: list[_ContainerStatus] | None
    initContainerStatuses: list[_ContainerStatus] | None
    resources: Any
    allocatedResources: Any


class _Object(TypedDict, total=False):
    """A pod, or the Status of an ERROR."""

    apiVersion: Any
    kind: Any
    metadata: _Metadata
    spec: _Spec | None
    status: _Status | str | None
    code: Any
    reason: Any
    message: Any


class _Event(TypedDict):
    type: Any
    object: _Object


_decode = msgspec.json.Decoder(_Event).decode


def decode(line: bytes) -> dict[str, Any]:
    """The event as orjson would read it, less the fields that nobody reads."""
    try:
        return cast(dict[str, Any], _decode(line))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):  # no pod as the API server writes them
        return cast(dict[str, Any], orjson.loads(line))
