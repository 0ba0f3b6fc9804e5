"""Which pods need a resize: when the ceiling moves, and when they get their authors' limits back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.allowance import Allowance
from limit_allocator.ceilings import Resize, resizes
from limit_allocator.distributed_container import DistributedContainer
from limit_allocator.membership import members
from limit_allocator.pod import Pod
from surgekit.process.modes import Mode
from tests.limit_allocator.objects import application, container, pod

ORIGINAL = {"cpu": "500m", "memory": "128Mi"}
CEILING = Allowance(400_000, 1 << 30, ceiling_cpu="4", ceiling_memory="1Gi")


def raised(cpu: str = "4", memory: str = "1Gi", **more: Any) -> Pod:
    return pod("p", container(limits={"cpu": cpu, "memory": memory}), original={"c": ORIGINAL}, **more)


def asked(
    specs: list[DistributedContainer], seen: Pod, allowance: Allowance | None = CEILING
) -> tuple[Resize, ...]:
    membership = members(specs, [seen], Mode.ENFORCE, exclusive_cpus=True)
    return resizes([seen], membership, {"shop/web": allowance} if allowance else {})


def limits(said: tuple[Resize, ...]) -> dict[str, tuple[str, str]]:
    (one,) = said
    return dict(one.limits)


def test_at_its_ceiling_a_pod_needs_nothing() -> None:
    assert asked([application()], raised()) == ()
    assert asked([application()], raised("4000m", "1024Mi")) == (), "the same amounts, written otherwise"


def test_a_ceiling_follows_the_applications_limit_both_ways() -> None:
    for cpu, memory in (("2", "1Gi"), ("8", "1Gi"), ("4", "2Gi")):
        assert limits(asked([application()], raised(cpu, memory))) == {"c": ("4", "1Gi")}


def test_a_ceiling_is_never_under_the_authors_limit() -> None:
    low = Allowance(10_000, 1 << 26, ceiling_cpu="100m", ceiling_memory="64Mi")
    assert limits(asked([application()], raised(), low)) == {"c": ("500m", "128Mi")}


def test_where_limits_are_counted_the_authors_come_back() -> None:
    kept = Allowance(400_000, 1 << 30, ceiling_cpu=None, ceiling_memory="1Gi")
    assert limits(asked([application()], raised(), kept)) == {"c": ("500m", "1Gi")}


def test_opting_out_in_every_way_gives_the_authors_limits_back() -> None:
    other = application(selector={"matchLabels": {"app": "db"}})
    ways = {
        "deleted": ([], raised()),
        "off": ([application(mode="off")], raised()),
        "shadow": ([application(mode="shadow")], raised()),
        "selected no more": ([other], raised()),
        "relabelled": ([application()], raised(labels={"app": "db"})),
    }
    for way, (specs, seen) in ways.items():
        (said,) = asked(specs, seen)
        assert said.reason == "back to its author's limits", way
        assert said.patch == {
            "metadata": {"uid": "uid-p"},
            "spec": {
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}}}]
            },
        }, way


def test_a_sidecar_without_limits_that_a_webhook_added_takes_the_pod_out() -> None:
    seen = pod(
        "p",
        container(limits={"cpu": "4", "memory": "1Gi"}),
        container("injected", limits=None),
        original={"c": ORIGINAL},
    )
    assert limits(asked([application()], seen)) == {"c": ("500m", "128Mi")}


def test_what_nobody_raised_is_never_touched() -> None:
    for specs in ([], [application()], [application(mode="off")]):
        assert asked(specs, pod("p")) == ()


def test_a_pod_that_waits_ends_or_leaves_is_not_resized() -> None:
    assert asked([], raised(node="")) == ()
    assert asked([], raised(phase="Failed")) == ()


def test_before_it_is_known_what_is_allowed_nothing_moves() -> None:
    assert asked([application()], raised("2"), None) == ()


@given(
    st.sampled_from(["off", "shadow", "enforce", None]),
    st.sampled_from(["500m", "1", "4", "9"]),
    st.sampled_from([None, "100m", "2", "4"]),
    st.sampled_from([None, "64Mi", "1Gi"]),
)
def test_a_resize_that_was_done_asks_for_no_other(
    mode: str | None, now: str, ceiling_cpu: str | None, ceiling_memory: str | None
) -> None:
    specs = [application(mode=mode)] if mode else []
    allowance = Allowance(1, 1, ceiling_cpu=ceiling_cpu, ceiling_memory=ceiling_memory)
    said = asked(specs, raised(now), allowance)
    cpu, memory = dict(said[0].limits)["c"] if said else (now, "1Gi")
    assert asked(specs, raised(cpu, memory), allowance) == ()


def test_the_authors_limits_wait_until_the_agent_has_taken_ours_away() -> None:
    seen = raised()
    nobodys = members([], [seen], Mode.ENFORCE, exclusive_cpus=True)
    assert resizes([seen], nobodys, {}, limited={seen.uid}) == ()
    assert limits(resizes([seen], nobodys, {}, limited={"another"})) == {"c": ("500m", "128Mi")}
    moved = members([application()], [raised("2")], Mode.ENFORCE, exclusive_cpus=True)
    ceiling = resizes([raised("2")], moved, {"shop/web": CEILING}, limited={seen.uid})
    assert limits(ceiling) == {"c": ("4", "1Gi")}, "a ceiling moves while limits are below it"
