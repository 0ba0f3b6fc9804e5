"""Rounds that decide nothing or carry nothing out: what is said then, and that nobody else is harmed."""

from __future__ import annotations

import pytest

from surgekit.kube.client import ApiError
from tests.hpa_replacement.builders import World, at_the_knee, exported, hpa, kneepolicy


def test_off_and_paused_are_said_and_nothing_is_asked() -> None:
    world = World(web=1, shop=1)
    world.add(kneepolicy(mode="off"), kneepolicy("shop", paused=True))
    reconciler = world.reconciler()
    world.go(reconciler, 3)
    assert world.condition("web") == ("False", "Off", "spec.mode is off")
    assert world.condition("shop") == ("False", "Paused", "spec.paused is true")
    assert world.queries == []
    assert len(world.patches) == 2, "said once"
    world.edit("shop", paused=False)
    world.go(reconciler, 15)
    assert at_the_knee(world, "shop")


def test_a_policy_that_makes_no_sense_says_so_and_harms_nobody() -> None:
    world = World(web=1, shop=1)
    world.add(kneepolicy(minReplicas=50), kneepolicy("shop"))
    reconciler = world.reconciler()
    world.refusals["/web/status"] = ApiError(500, "InternalError", "a moment")
    world.go(reconciler)
    assert "conditions" not in world.status("web")
    world.refusals.clear()
    world.go(reconciler, 15)
    why = "spec.maxReplicas: must be at least spec.minReplicas (50), is 40"
    assert world.condition("web") == ("False", "InvalidPolicy", why)
    assert at_the_knee(world, "shop")
    world.edit("web", minReplicas=1)
    world.go(reconciler)
    assert world.condition("web")[1] == "Searching"


def test_of_two_policies_on_one_target_the_older_decides() -> None:
    world = World()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    older, newer = kneepolicy("older", scaleTargetRef=target), kneepolicy("newer", scaleTargetRef=target)
    older["metadata"]["creationTimestamp"] = "2025-01-01T00:00:00Z"
    world.add(newer, older)
    world.go(reconciler := world.reconciler())
    assert world.condition("older")[1] == "Searching"
    assert world.condition("newer") == (
        "False",
        "AnotherAutoscaler",
        "KneePolicy shop/older scales Deployment web",
    )
    world.edit("older", mode="off")  # it scales nothing any more
    world.go(reconciler)
    assert world.condition("newer")[1] == "Searching"


def test_an_hpa_on_the_same_target_is_refused_for_scale() -> None:
    world = World(web=3)
    world.add(kneepolicy())
    world.set_hpas(hpa("by-cpu", "web"), hpa("other", "elsewhere"))
    reconciler = world.reconciler()
    world.go(reconciler, 3)
    status, reason, message = world.condition()
    assert (status, reason) == ("False", "AnotherAutoscaler")
    assert message.startswith("HorizontalPodAutoscaler by-cpu scales Deployment web; remove it, or let it")
    assert world.scaled() == []
    world.edit("web", mode="shadow")
    world.go(reconciler)
    assert world.condition()[1] == "Searching", "beside an HPA shadow is how to try it out"
    assert "HorizontalPodAutoscaler by-cpu" in world.condition()[2]
    world.edit("web", mode="enforce")
    world.set_hpas(hpa("by-cpu", "web", "other.dev/v1"))
    world.go(reconciler)
    assert world.scaled(), "an HPA of another group's Deployment is none of ours"


def test_via_metrics_leaves_scaling_to_the_hpa() -> None:
    world = World()
    world.add(kneepolicy(via="metrics"))
    reconciler = world.reconciler()
    world.go(reconciler, 10)
    assert "no HorizontalPodAutoscaler scales Deployment web" in world.condition()[2]
    assert not world.status()["knownKnees"], "without an HPA nothing is measured, so nothing learnt"
    world.set_hpas(hpa("follows", "web"))
    for _ in range(15):
        world.go(reconciler)
        world.scale("web", world.status()["targetReplicas"])
    assert world.scaled() == []
    assert at_the_knee(world)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (("apps/v1", "DaemonSet", "web"), "scaleTargetRef.kind: DaemonSet has no scale subresource"),
        (("apps/v1", "Deploymint", "web"), "scaleTargetRef.kind: apps/v1 has no 'Deploymint'"),
        (("apps/v2", "Deployment", "web"), "scaleTargetRef.apiVersion: 'apps/v2' is not served"),
        (("apps/v1", "Deployment", "gone"), "there is no Deployment gone in shop"),
    ],
)
def test_a_target_that_cannot_be_scaled(target: tuple[str, str, str], why: str) -> None:
    world = World()
    world.add(kneepolicy(scaleTargetRef=dict(zip(("apiVersion", "kind", "name"), target, strict=True))))
    world.go(world.reconciler())
    assert world.condition() == ("False", "TargetNotScalable", why)


def test_a_scale_that_is_forbidden_is_said_and_tried_again() -> None:
    world = World()
    world.add(kneepolicy())
    reconciler = world.reconciler()
    world.before_patch = lambda path: (
        world.refusals.update({"/scale": ApiError(403, "Forbidden", "cannot patch deployments/scale")})
        if path.endswith("/scale")
        else world.refusals.clear()
    )
    world.go(reconciler, 2)
    status, reason, message = world.condition()
    assert (status, reason) == ("False", "TargetNotScalable")
    assert "forbidden to us: cannot patch deployments/scale" in message
    assert exported(world, "failures_total", what="scale") == 2
    world.before_patch = lambda path: None
    world.refusals.clear()
    world.go(reconciler, 15)
    assert at_the_knee(world)
