"""Reads and writes the `scale` subresource of any kind that has one."""

from __future__ import annotations

from dataclasses import dataclass

from surgekit.kube.api_path import InvalidPath, Resource, group_path
from surgekit.kube.client import ApiError, Kube
from surgekit.kube.scale_target import ScaleTarget, read_selector

__all__ = ["NotScalable", "Scale", "Scales"]


class NotScalable(Exception):
    """The target cannot be scaled; the message says why."""


@dataclass(frozen=True, slots=True)
class Scale:
    replicas: int
    selector: dict[str, str]


class Scales:
    """Finds resources by kind through discovery, caches them, and reads and writes their scale."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._resources: dict[tuple[str, str], Resource] = {}

    def get(self, target: ScaleTarget) -> Scale:
        try:
            obj = self._kube.get(self._path(target))
        except ApiError as error:
            raise self._refusal(target, error) from error
        try:
            selector = read_selector((obj.get("status") or {}).get("selector") or "")
        except ValueError as error:
            raise NotScalable(f"{target.kind} {target.name}: {error}") from error
        if not selector:
            raise NotScalable(f"the scale of {target.kind} {target.name} names no selector of its pods")
        return Scale((obj.get("spec") or {}).get("replicas") or 0, selector)

    def set(self, target: ScaleTarget, replicas: int) -> None:
        try:
            self._kube.patch(self._path(target), {"spec": {"replicas": replicas}})
        except ApiError as error:
            raise self._refusal(target, error) from error

    def _refusal(self, target: ScaleTarget, error: ApiError) -> Exception:
        if error.code == 404:
            return NotScalable(f"there is no {target.kind} {target.name} in {target.namespace}")
        if error.code == 403:
            return NotScalable(
                f"the scale of {target.kind} {target.name} is forbidden to us: {error.message}"
            )
        return error

    def _path(self, target: ScaleTarget) -> str:
        kind = (target.api_version, target.kind)
        try:
            if kind not in self._resources:
                self._resources[kind] = Resource(target.api_version, self._discover(target))
            return self._resources[kind].path(target.namespace, target.name, "scale")
        except InvalidPath as error:
            raise NotScalable(f"scaleTargetRef: {error}") from error

    def _discover(self, target: ScaleTarget) -> str:
        """Find the plural of the target's kind; raise NotScalable if it has no scale."""
        try:
            resources = self._kube.get(group_path(target.api_version))["resources"]
        except ApiError as error:
            if error.code == 404:
                raise NotScalable(
                    f"scaleTargetRef.apiVersion: {target.api_version!r} is not served"
                ) from error
            raise
        names = {r["name"] for r in resources}
        plurals = [r["name"] for r in resources if r["kind"] == target.kind and "/" not in r["name"]]
        if not plurals:
            raise NotScalable(f"scaleTargetRef.kind: {target.api_version} has no {target.kind!r}")
        if f"{plurals[0]}/scale" not in names:
            raise NotScalable(f"scaleTargetRef.kind: {target.kind} has no scale subresource")
        return str(plurals[0])
