"""Which pods belong to which DistributedContainer."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.membership import effective_mode, members, oldest
from limit_allocator.pod import LeaveAlone
from surgekit.process.modes import Mode
from tests.limit_allocator.objects import application, container, distributed_container, pod

MODES = st.sampled_from(["off", "shadow", "enforce"])


def test_a_pod_of_two_belongs_to_the_older_one() -> None:
    old, young = application("z-old", created=1), application("a-young", created=2)
    found = members([young, old], [pod("p")], Mode.ENFORCE, exclusive_cpus=True)
    assert found.owner == {"uid-p": "shop/z-old"}
    assert [p.name for p in found.applications["shop/z-old"].pods] == ["p"]
    young_one = found.applications["shop/a-young"]
    assert (young_one.pods, [(p.name, key) for p, key in young_one.of_others]) == ((), [("p", "shop/z-old")])


def test_of_two_made_at_once_the_first_by_name_has_it() -> None:
    found = members([application("b"), application("a")], [pod("p")], Mode.ENFORCE, exclusive_cpus=True)
    assert found.owner == {"uid-p": "shop/a"}


def test_one_that_is_off_leaves_its_pods_to_the_next() -> None:
    old, young = application("old", mode="off"), application("young", created=2)
    found = members([old, young], [pod("p")], Mode.ENFORCE, exclusive_cpus=True)
    assert found.owner == {"uid-p": "shop/young"}
    assert found.applications["shop/old"].mode is Mode.OFF


def test_only_pods_of_its_namespace_that_run_on_a_node() -> None:
    pods = [
        pod("other-namespace", namespace="bank"),
        pod("other-label", labels={"app": "db"}),
        pod("finished", phase="Succeeded"),
        pod("waits", node=""),
        pod("runs"),
    ]
    found = members([application()], pods, Mode.ENFORCE, exclusive_cpus=True)
    assert [p.name for p in found.applications["shop/web"].pods] == ["runs"]
    assert set(found.owner) == {"uid-waits", "uid-runs"}, "one that waits for a node is no stranger's"


def test_a_pod_that_is_left_alone_has_no_owner_and_is_nobody_elses() -> None:
    alone = pod("p", container(limits=None))
    specs = [application("old"), application("young", created=2)]
    found = members(specs, [alone], Mode.ENFORCE, exclusive_cpus=True)
    assert found.owner == {}
    assert [(p.name, why) for p, why in found.applications["shop/old"].left_alone] == [
        ("p", LeaveAlone.NO_LIMITS)
    ]
    assert found.applications["shop/young"].left_alone == ()


def test_the_controllers_mode_is_the_most() -> None:
    order = [Mode.OFF, Mode.SHADOW, Mode.ENFORCE]
    for asked in order:
        for most in order:
            assert order.index(effective_mode(asked, most)) == min(order.index(asked), order.index(most))


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 3)), max_size=12),
    st.integers(1, 5),
    st.randoms(),
)
def test_the_oldest_of_each_namespace_count_whatever_order_they_come_in(
    made: list[tuple[str, int]], most: int, shuffle: Random
) -> None:
    objects = [distributed_container(f"d{i}", namespace, day) for i, (namespace, day) in enumerate(made)]
    before = oldest(objects, most)
    shuffle.shuffle(objects)
    assert oldest(objects, most) == before
    counting, others = before
    for namespace in ("a", "b"):
        age = [
            [(o["metadata"]["creationTimestamp"], o["metadata"]["name"]) for o in of
             if o["metadata"]["namespace"] == namespace]
            for of in (counting, others)
        ]  # fmt: skip
        assert len(age[0]) == min(most, len(age[0]) + len(age[1]))
        assert not age[1] or max(age[0]) < min(age[1])


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 3), MODES, st.booleans()), max_size=5),
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.booleans(), st.booleans()), max_size=6),
    st.sampled_from(list(Mode)),
)
def test_no_pod_has_two_owners_and_no_owner_is_of_another_namespace(
    specs: list[tuple[str, int, str, bool]], pods: list[tuple[str, bool, bool]], most: Mode
) -> None:
    made = [
        application(
            f"d{i}", namespace, created, mode=mode, selector={} if every else {"matchLabels": {"x": "y"}}
        )
        for i, (namespace, created, mode, every) in enumerate(specs)
    ]
    running = [
        pod(f"p{i}", container(limits=None) if bare else container(), namespace=namespace,
            labels={"x": "y"} if labelled else {})
        for i, (namespace, labelled, bare) in enumerate(pods)
    ]  # fmt: skip
    found = members(made, running, most, exclusive_cpus=True)
    assert set(found.applications) == {spec.key for spec in made}
    of = [(p.uid, key) for key, app in found.applications.items() for p in app.pods]
    assert dict(of) == found.owner
    assert len(of) == len(found.owner)
    for uid, key in found.owner.items():
        (owned,) = [p for p in running if p.uid == uid]
        spec = found.applications[key].spec
        assert owned.namespace == spec.namespace
        older = [s for s in made if s.namespace == spec.namespace and s.seniority < spec.seniority]
        assert not any(
            s.selector.matches(owned.labels) and effective_mode(s.mode, most) is not Mode.OFF for s in older
        )
