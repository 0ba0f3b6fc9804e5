"""Which serverless runs are played, and under which limits."""

from __future__ import annotations

from experiments.escra.serverless.model import BATCH, IMAGE, PAIRS, Serverless, ServerlessArm

MIB = 1 << 20


def test_ours_gets_the_sum_of_the_pools_static_limits_or_a_share_of_it() -> None:
    runs = {(run.function.name, run.arm.name): run.arm for run in Serverless().runs(2001)}
    static, ours, less = (runs["batch", name] for name in ("static", "ours", "ours_80"))
    pod = static.limits(BATCH)
    assert (pod.quota_us, pod.memory_bytes) == static.spec == (20_000, 256 * MIB)
    assert ours.total(BATCH) == (200_000, 2_560 * MIB)
    assert less.total(BATCH) == (160_000, 2_048 * MIB)
    ceiling = less.limits(BATCH)
    assert (ceiling.quota_us, ceiling.memory_bytes) == less.total(BATCH)


def test_the_printed_equations_have_the_papers_upsilon() -> None:
    upsilon = {
        run.function.name: run.arm.ours.upsilon
        for run in Serverless().runs(2001)
        if run.arm.name == "paper" and run.arm.ours
    }
    assert upsilon == {"image": 35.0, "batch": 20.0}
    assert not [run for run in Serverless(paper=False).runs(2001) if run.arm.name == "paper"]


def test_arms_alternate_and_every_ratio_has_its_two() -> None:
    plan = Serverless()
    first, second = ([run.key(plan) for run in plan.runs(seed)] for seed in (1, 2))
    assert [key.rsplit("/")[-1] for key in first] != [key.rsplit("/")[-1] for key in second]
    assert len({*first, *second}) == len(first) + len(second)
    names = {(run.function.name, run.arm.name) for run in plan.runs(1)}
    assert {(function, arm) for function, *arms in PAIRS.values() for arm in arms} <= names


def test_another_length_is_another_run() -> None:
    (run, *_) = Serverless().runs(1)
    assert run.key(Serverless()) != run.key(Serverless(image_s=1.0))


def test_a_request_uses_a_vcpus_share_of_a_core() -> None:
    said = dict(argument.split("=") for argument in IMAGE.arguments(80, 7))
    assert (said["-cpu-us"], said["-share"], said["-wait-ms"]) == ("240000", "0.2", "600")
    assert ServerlessArm("static").ours is None
