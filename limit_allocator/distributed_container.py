"""Reads a DistributedContainer object. The CRD's schema refuses most invalid values; the reader, the rest.

A DistributedContainer is the paper's abstraction of an application: containers on many nodes that share one
CPU and one memory limit (section III).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from limit_allocator.allocation.model import PERIOD_US, ParameterError, Parameters, Variant
from surgekit.errors import UserError
from surgekit.kube import label_selector
from surgekit.kube.api_path import Resource
from surgekit.kube.label_selector import LabelSelector, SelectorError
from surgekit.kube.quantity import QuantityError, parse
from surgekit.process.modes import Mode

__all__ = [
    "DISTRIBUTED_CONTAINERS", "MOST_BYTES", "MOST_CPU_US", "PARAMETERS", "PATH", "DistributedContainer",
    "SpecError", "cpu_us", "memory_bytes", "read",
]  # fmt: skip

Json = dict[str, Any]
DISTRIBUTED_CONTAINERS = Resource("surgekit.dev/v1alpha1", "distributedcontainers")
PATH = DISTRIBUTED_CONTAINERS.path()
_SHOWN = 100  # characters of a refused value in an error

# Key in spec.parameters: field of Parameters. The CRD has the same keys, defaults, bounds; a test compares.
PARAMETERS = {
    "variant": "variant",
    "windowPeriods": "window_periods",
    "kappa": "kappa",
    "gamma": "gamma",
    "upsilon": "upsilon",
    "sliceMicroseconds": "slice_us",
    "burst": "burst",
    "sigma": "sigma",
    "deltaBytes": "delta_bytes",
    "tightDeltaBytes": "tight_delta_bytes",
    "reclaimSeconds": "reclaim_every_s",
    "growthPages": "growth_pages",
    "floorMicroseconds": "floor_us",
    "floorBytes": "floor_bytes",
    "silentSeconds": "silent_after_s",
}
_WHOLE = frozenset(key for key, name in PARAMETERS.items() if isinstance(getattr(Parameters(), name), int))

MOST_CPU_US = 1_000_000 * PERIOD_US  # a million cores; the sum of many stays below 2^53
MOST_BYTES = 1 << 50


class SpecError(UserError, ValueError):
    """A field that cannot be used; the message names it and its value."""


@dataclass(frozen=True, slots=True)
class DistributedContainer:
    namespace: str
    name: str
    uid: str
    generation: int
    created: str  # creationTimestamp: RFC 3339 in UTC, so texts sort as times
    selector: LabelSelector
    cpu_us: int  # global CPU limit, run time per period
    memory_bytes: int  # global memory limit
    mode: Mode
    parameters: Parameters

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def seniority(self) -> tuple[str, str]:
        """The older one sorts first."""
        return self.created, self.name


def read(obj: Json) -> DistributedContainer:
    """Raises SpecError, which names the field."""
    metadata, spec = _object("metadata", obj.get("metadata")), _object("spec", obj.get("spec"))
    try:
        selector = label_selector.read("spec.selector", spec.get("selector"))
    except SelectorError as error:
        raise SpecError(str(error)) from error
    return DistributedContainer(
        _text("metadata.namespace", metadata.get("namespace")),
        _text("metadata.name", metadata.get("name")),
        _text("metadata.uid", metadata.get("uid")),
        _generation(metadata.get("generation", 0)),
        _text("metadata.creationTimestamp", metadata.get("creationTimestamp", "")),
        selector,
        cpu_us("spec.cpu", spec.get("cpu")),
        memory_bytes("spec.memory", spec.get("memory")),
        _mode(spec.get("mode", Mode.SHADOW)),
        _parameters(_object("spec.parameters", spec.get("parameters") or {})),
    )


def cpu_us(where: str, quantity: object) -> int:
    """Cores as run time per period; at least one millisecond, the kernel's least quota."""
    return _amount(where, quantity, PERIOD_US, 1_000, MOST_CPU_US)


def memory_bytes(where: str, quantity: object) -> int:
    return _amount(where, quantity, 1, 1, MOST_BYTES)


def _amount(where: str, quantity: object, unit: int, least: int, most: int) -> int:
    try:
        amount = int(parse(quantity) * unit + 1e-6)  # down: a limit is never more than was written
    except QuantityError as error:
        raise SpecError(f"{where}: {error}") from error
    if not least <= amount <= most:
        raise SpecError(f"{where}: {quantity!r} is outside {least / unit:g}..{most / unit:g}")
    return amount


def _mode(value: object) -> Mode:
    try:
        return Mode(value)  # type: ignore[arg-type]  # whatever is no Mode raises
    except ValueError:
        raise SpecError(f"spec.mode: must be one of {', '.join(Mode)}, is {_shown(value)}") from None


def _parameters(given: Json) -> Parameters:
    if unknown := sorted(str(key)[:_SHOWN] for key in set(given) - set(PARAMETERS)):
        raise SpecError(f"spec.parameters: {unknown[0]!r} is unknown; known: {', '.join(PARAMETERS)}")
    values = {key: _parameter(key, value) for key, value in given.items()}
    try:
        return Parameters(**{PARAMETERS[key]: value for key, value in values.items()})
    except ParameterError as error:
        raise SpecError(f"spec.parameters: {_in_our_words(str(error))}") from error


def _parameter(key: str, value: Any) -> Any:
    if key == "variant":
        try:
            return Variant(value)
        except ValueError:
            raise SpecError(
                f"spec.parameters.variant: must be one of {', '.join(Variant)}, is {_shown(value)}"
            ) from None
    if isinstance(value, bool) or not isinstance(value, int if key in _WHOLE else int | float):
        what = "a whole number" if key in _WHOLE else "a number"
        raise SpecError(f"spec.parameters.{key}: must be {what}, is {_shown(value)}")
    if abs(value) > 1 << 60:  # Python cannot print, or make a float of, every integer
        raise SpecError(f"spec.parameters.{key}: is out of range")
    return value if key in _WHOLE else float(value)


def _in_our_words(message: str) -> str:
    """Errors of Parameters name its fields; users know the keys of the spec."""
    for key, name in sorted(PARAMETERS.items(), key=lambda pair: -len(pair[1])):
        message = message.replace(name, key) if key != name else message
    return message


def _generation(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(f"metadata.generation: must be a whole number, is {_shown(value)}")
    return value


def _object(where: str, value: object) -> Json:
    if not isinstance(value, dict):
        raise SpecError(f"{where}: must be an object, is {_shown(value)}")
    return value


def _text(where: str, value: object) -> str:
    if not isinstance(value, str):
        raise SpecError(f"{where}: must be a text, is {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN] if isinstance(value, str | list | dict) else f"of type {type(value).__name__}"
