"""The object that a `scaleTargetRef` names, and the selector in its Scale. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScaleTarget", "read_selector"]


@dataclass(frozen=True, slots=True)
class ScaleTarget:
    api_version: str
    kind: str
    namespace: str
    name: str


def read_selector(text: str) -> dict[str, str]:
    """Parse `status.selector` of a Scale. Only `key=value` pairs are supported; workloads write no others."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    if any(not sign or key.endswith("!") for key, sign, _ in pairs):
        raise ValueError(f"selector {text!r} is more than labels and values")
    return {key: value.removeprefix("=") for key, _, value in pairs}
