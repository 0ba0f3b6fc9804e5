"""Reads the sizes that a pod of a ComboFunc offers. Anybody may write such an annotation: what makes no sense
is no offer, and the pod is planned for as it is."""

from __future__ import annotations

import json
from typing import Any

from cluster_autoscaler_hook.karpenter.labels import SIZE_LABEL, SIZE_OFFER_ANNOTATION
from cluster_autoscaler_hook.karpenter.model import SizeOffer, SizeOption

__all__ = ["read_offer"]

Json = dict[str, Any]
_LONGEST = 16_384  # characters
_MOST_SIZES = 64  # the ComboFunc CRD's bounds, here and below
_MOST_CONCURRENCY, _MOST_NEED = 10_000, 100_000
_MOST_PODS = 1000  # the bound of ComboFunc's setting
_MOST_MILLICORES, _MOST_BYTES = 2_000_000, 1 << 47
_LONGEST_NAME = 63


class _NoOffer(ValueError):
    pass


def read_offer(pod: Json) -> SizeOffer | None:
    metadata = pod["metadata"]
    text = (metadata.get("annotations") or {}).get(SIZE_OFFER_ANNOTATION)
    owner = _function_of(metadata)
    if not owner or not isinstance(text, str) or len(text) > _LONGEST:
        return None
    try:
        says = json.loads(text)
        options = tuple(_option(size) for size in says["sizes"][: _MOST_SIZES + 1])
        offer = SizeOffer(
            owner,
            _name(says["batch"]),
            _whole(says["need"], _MOST_NEED),
            _whole(says["mostPods"], _MOST_PODS),
            _name((metadata.get("labels") or {})[SIZE_LABEL]),
            options,
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    names = [option.name for option in options]
    if len(names) > _MOST_SIZES or len(set(names)) < len(names) or offer.size not in names:
        return None
    return offer


def _function_of(metadata: Json) -> str:
    """uid of the ComboFunc that controls the pod; empty if none does."""
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if not isinstance(owner, dict) or owner.get("controller") is not True:
            continue
        if owner.get("kind") == "ComboFunc" and str(owner.get("apiVersion")).startswith("surgekit.dev/"):
            return str(owner.get("uid") or "")
    return ""


def _option(size: Any) -> SizeOption:
    return SizeOption(
        _name(size["name"]),
        _whole(size["cpuMillicores"], _MOST_MILLICORES),
        _whole(size["memoryBytes"], _MOST_BYTES),
        _whole(size["concurrency"], _MOST_CONCURRENCY),
    )


def _name(text: Any) -> str:
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME:
        raise _NoOffer
    return text


def _whole(value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise _NoOffer
    return value
