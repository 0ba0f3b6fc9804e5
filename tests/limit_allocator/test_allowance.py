"""What a namespace allows: the global limit in force, and ceilings."""

from __future__ import annotations

from typing import Any

import pytest

from limit_allocator.allowance import Quota, allow, read_limit_range, read_quota
from tests.limit_allocator.objects import application, container, pod

PODS = [pod("a", container(limits={"cpu": "2", "memory": "1Gi"})), pod("b", container(), container("d"))]


def quota(**hard: str) -> Quota:
    metadata = {"namespace": "shop", "name": "q"}
    return read_quota(
        {"metadata": metadata, "spec": {"hard": {k.replace("_", "."): v for k, v in hard.items()}}}
    )


def limit_range(*limits: dict[str, Any]) -> Any:
    return read_limit_range(
        {"metadata": {"namespace": "shop", "name": "r"}, "spec": {"limits": list(limits)}}
    )


def test_without_a_quota_the_authors_limits_are_the_most() -> None:
    said = allow(application(cpu="10", memory="10Gi"), PODS, [], [])
    assert (said.cpu_us, said.memory_bytes) == (300_000, (1024 + 256) << 20)
    assert said.limited_by == (
        "the limits that the authors of its pods wrote add up to 3 cores cpu",
        "the limits that the authors of its pods wrote add up to 1280 MiB memory",
    )


def test_an_authors_limit_is_what_it_was_before_admission_raised_it() -> None:
    raised = pod(
        "p", container(limits={"cpu": "8", "memory": "8Gi"}), original={"c": {"cpu": "1", "memory": "1Gi"}}
    )
    assert allow(application(cpu="10", memory="10Gi"), [raised], [], []).cpu_us == 100_000


def test_a_limit_that_is_less_is_in_force_as_written() -> None:
    said = allow(application(cpu="1", memory="512Mi"), PODS, [], [])
    assert (said.cpu_us, said.memory_bytes, said.limited_by) == (100_000, 512 << 20, ())


def test_with_a_quota_of_limits_it_counts_and_pods_keep_their_authors_limits() -> None:
    said = allow(
        application(cpu="10", memory="10Gi"), PODS, [quota(limits_cpu="5"), quota(limits_cpu="4")], []
    )
    assert said.cpu_us == 400_000, "more than the authors' limits, less than asked for"
    assert said.memory_bytes == 1280 << 20, "no quota counts memory"
    assert said.limited_by[0] == "ResourceQuota q allows 4 cores of limits.cpu"
    assert (said.ceiling_cpu, said.ceiling_memory) == (None, "10240Mi")
    assert said.kept_because == ("ResourceQuota q counts limits.cpu",)


def test_a_quota_of_requests_or_pods_says_nothing_about_limits() -> None:
    said = allow(application(cpu="1"), PODS, [quota(requests_cpu="1", pods="5")], [])
    assert (said.cpu_us, said.ceiling_cpu, said.kept_because) == (100_000, "1000m", ())


@pytest.mark.parametrize(
    ("limits", "cpu", "why"),
    [
        ({"type": "Container", "max": {"cpu": "2"}}, "2", ()),
        ({"type": "Container", "max": {"cpu": "200"}}, "4000m", ()),
        ({"type": "Container", "default": {"cpu": "1"}, "min": {"cpu": "1m"}}, "4000m", ()),
        ({"type": "Pod", "max": {"cpu": "8"}}, None, ("LimitRange r bounds cpu by the pod",)),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}},
            None,
            ("LimitRange r bounds cpu by the pod",),
        ),
        ({"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}, "4000m", ()),
    ],
)
def test_a_limit_range_lowers_the_ceiling_or_keeps_the_authors_limits(
    limits: dict[str, Any], cpu: str | None, why: tuple[str, ...]
) -> None:
    said = allow(application(), PODS, [], [limit_range(limits)])
    assert (said.ceiling_cpu, said.kept_because) == (cpu, why)
    assert said.ceiling_memory == "1024Mi"


def test_of_several_maxima_the_least_holds() -> None:
    ranges = [
        limit_range(
            {"type": "Container", "max": {"cpu": "3"}}, {"type": "Container", "max": {"cpu": "1500m"}}
        ),
        limit_range({"type": "Container", "max": {"cpu": "2"}}),
    ]
    assert allow(application(), PODS, [], ranges).ceiling_cpu == "1500m"


def test_a_ceiling_is_exact() -> None:
    assert allow(application(memory="1073741825"), PODS, [], []).ceiling_memory == "1073741825"


def test_nothing_selected_nothing_allowed() -> None:
    said = allow(application(), [], [], [])
    assert (said.cpu_us, said.memory_bytes) == (0, 0)
