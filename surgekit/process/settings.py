"""Settings: one frozen dataclass a part, read from a YAML file and the environment, checked together.

Every error names the key and the value. `describe` prints the table that the READMEs show. Settings that
several parts have in common are base classes here.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, get_type_hints

import yaml

from surgekit.errors import UserError

__all__ = [
    "LeaderSettings", "ProcessSettings", "PrometheusSettings", "SettingsError", "describe", "load", "setting",
]  # fmt: skip


class Named(Protocol):
    """A dataclass of settings; its variables are SURGEKIT_<PART>_<KEY>."""

    PART: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


T = TypeVar("T", bound=Named)


class SettingsError(UserError, ValueError):
    """A setting that cannot be used; the message names key and value."""


def setting(
    default: Any, help: str, *, minimum: float | None = None, maximum: float | None = None
) -> Any:  # Any: a dataclass field stands where its value's type is declared
    """A field with its meaning and unit in a sentence, and the bounds `load` checks."""
    return dataclasses.field(default=default, metadata={"help": help, "min": minimum, "max": maximum})


@dataclasses.dataclass(frozen=True)
class ProcessSettings:
    """What every process has. A part's own class names it: its variables are SURGEKIT_<PART>_<KEY>."""

    PART: ClassVar[str]

    health_bind: str = setting("0.0.0.0:8080", "address and port of /livez, /readyz, /metrics")
    log_level: str = setting("INFO", "DEBUG, INFO, WARNING or ERROR")


@dataclasses.dataclass(frozen=True)
class LeaderSettings(ProcessSettings):
    """What a controller has, of which one replica acts."""

    max_input_age_s: float = setting(
        60.0,
        "seconds without word from the API server after which nothing is decided",
        minimum=5.0,
        maximum=3600.0,
    )
    lease_namespace: str = setting("surgekit-system", "namespace of the Lease that the acting replica holds")


@dataclasses.dataclass(frozen=True)
class PrometheusSettings:
    prometheus_url: str = setting("http://prometheus-operated.monitoring:9090", "where Prometheus answers")
    prometheus_ca: Path | None = setting(None, "CA file for its certificate; none: the system's")
    prometheus_token: Path | None = setting(None, "file with a bearer token for it; none: no token")
    prometheus_timeout_s: float = setting(5.0, "seconds a query may take", minimum=0.1, maximum=60.0)
    unconfined_promql: bool = setting(
        False,
        "whether tenants' own PromQL may read all series; else only those labelled with their namespace",
    )


def load(cls: type[T], file: Path | None = None, environ: Mapping[str, str] = os.environ, **given: Any) -> T:
    """`cls` from `file`, overridden by SURGEKIT_<PART>_<KEY> variables, overridden by what is `given`."""
    values: dict[str, Any] = {}
    if file is not None:
        values = _read(file)
    known = {f.name: f for f in dataclasses.fields(cls)}
    for key in known:
        if (text := environ.get(f"SURGEKIT_{cls.PART}_{key}".upper())) is not None:
            values[key] = text
    values |= {k: v for k, v in given.items() if v is not None}
    if unknown := sorted(set(values) - set(known)):
        raise SettingsError(f"unknown setting {unknown[0]!r}; known: {', '.join(sorted(known))}")
    hints = get_type_hints(cls)
    checked = {k: _check(k, v, hints[k], known[k].metadata) for k, v in values.items()}
    return cls(**checked)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(f"settings file {str(file)!r} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise SettingsError(f"settings file {str(file)!r} must hold keys and values")
    return content


def _check(key: str, value: Any, kind: Any, bounds: Mapping[str, Any]) -> Any:
    try:
        converted = _convert(value, kind)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{key}: {value!r} is not {_name(kind)}") from error
    if isinstance(converted, float) and not math.isfinite(converted):
        raise SettingsError(f"{key}: {value!r} is not a finite number")
    low, high = bounds.get("min"), bounds.get("max")
    if (low is not None and converted < low) or (high is not None and converted > high):
        raise SettingsError(f"{key}: {value!r} is outside {low}..{'' if high is None else high}")
    return converted


def _convert(value: Any, kind: Any) -> Any:
    if kind is bool:
        words = {"true": True, "false": False}
        return value if isinstance(value, bool) else words[str(value).lower()]
    if kind is int and isinstance(value, float | bool):
        raise ValueError
    if kind in (int, float, str) or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind(value)
    if kind == tuple[str, ...]:
        return tuple(value.split(",") if isinstance(value, str) else map(str, value))
    if kind == Path | None or kind is Path:
        return Path(value)
    raise TypeError(f"unsupported setting type {kind}")


def _name(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(m.value) for m in kind)
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, str(kind))


def describe(cls: type[Any]) -> list[tuple[str, str, str]]:
    """(key, default, meaning) of every setting; a part's own before those it has in common with others."""
    fields = sorted(dataclasses.fields(cls), key=lambda f: f.name not in cls.__annotations__)
    return [(f.name, _written(f.default), f.metadata["help"]) for f in fields]


def _written(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, default))}]"
    return str(default.value if isinstance(default, Enum) else default)
