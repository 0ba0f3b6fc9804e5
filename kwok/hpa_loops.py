"""Divide the HPA controller's periods by a lab's time factor.

An experiment that runs functions, traffic and controllers `time_factor` times as fast must run the stock
HPA as fast too. Otherwise it would compare a fast controller with a slow one.
"""

from __future__ import annotations

from typing import Any

from kwok.errors import ClusterError

__all__ = ["checked_time_factor", "controller_flags", "default_behavior"]

# metrics-server refuses less than 10 s. At 4 that acts like 40 s; a higher factor would cripple the HPA.
_LARGEST = 4.0
# kube-controller-manager 1.36, --horizontal-pod-autoscaler-*: the defaults, in seconds.
_FLAGS_S = {
    "sync-period": 15.0,
    "downscale-stabilization": 300.0,
    "cpu-initialization-period": 300.0,
    "initial-readiness-delay": 30.0,
}
_POLICY_PERIOD_S = 15  # of the policies autoscaling/v2 fills in where an HPA has no `behavior`


def checked_time_factor(time_factor: float) -> float:
    if not 1.0 <= time_factor <= _LARGEST:
        raise ClusterError(f"time_factor: {time_factor!r} is not in 1..{_LARGEST:g}")
    return time_factor


def controller_flags(time_factor: float) -> dict[str, str]:
    """Flags for kube-controller-manager, without dashes; none at 1, where its defaults hold."""
    if time_factor == 1.0:
        return {}
    return {
        f"horizontal-pod-autoscaler-{name}": f"{seconds / time_factor:g}s"
        for name, seconds in _FLAGS_S.items()
    }


def default_behavior(time_factor: float) -> dict[str, Any]:
    """The default `spec.behavior` of autoscaling/v2, with divided periods. These are in the HPA object, no
    flag reaches them. They are whole seconds, so 15 / 4 is rounded to 4. The stabilisation of scale-downs
    is left to the flag."""
    period_s = max(1, round(_POLICY_PERIOD_S / time_factor))
    whole = {"type": "Percent", "value": 100, "periodSeconds": period_s}
    four = {"type": "Pods", "value": 4, "periodSeconds": period_s}
    return {
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [four, whole]},
        "scaleDown": {"selectPolicy": "Max", "policies": [whole]},
    }
