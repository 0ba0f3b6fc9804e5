"""Names of cgroups: what kubelets and runtimes write, and what a hostile name could be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.cgroups.layout import ContainerCgroup, Hierarchy, find, parse

UID = "0f2c6e1a-7b1d-4c52-9a55-0d9b6a5b1c2d"
UNDERSCORES = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID = "ab" * 32

CONTAINERS = [
    (f"kubepods/pod{UID}/{ID}", UID, "Guaranteed"),
    (f"kubepods/burstable/pod{UID}/{ID}", UID, "Burstable"),
    (f"kubepods/besteffort/pod{UID}/{ID}", UID, "BestEffort"),
    (f"kubepods/besteffort/pod{UID}/crio-{ID}", UID, "BestEffort"),
    (f"kubepods/burstable/pod{STATIC}/{ID}", STATIC, "Burstable"),
    (f"kubepods.slice/kubepods-pod{UNDERSCORES}.slice/cri-containerd-{ID}.scope", UID, "Guaranteed"),
    (
        f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDERSCORES}.slice/crio-{ID}.scope",
        UID,
        "Burstable",
    ),
    (
        f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{STATIC}.slice/docker-{ID}.scope",
        STATIC,
        "BestEffort",
    ),
    (  # kind: the kubelet's --cgroup-root is /kubelet
        f"kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORES}.slice/cri-containerd-{ID}.scope",
        UID,
        "Guaranteed",
    ),
]
OTHERS = [
    "",
    "/",
    "kubepods",
    "kubepods/burstable",
    f"kubepods/pod{UID}",
    f"kubepods/pod{UID}/",
    f"kubepods/pod{UID}/{ID}/nested",
    f"kubepods/pod{UID}/{ID}/kubepods/pod{UID}/{ID}",
    f"kubepods/pod{UID}/crio-conmon-{ID}",
    f"kubepods/pod{UID}/{ID}\n",
    f"kubepods/pod{UID}/../{ID}",
    f"kubepods/pod{UID}/..",
    f"../kubepods/pod{UID}/{ID}",
    f"kubepods/pod{UID}/{ID.upper()}",
    f"kubepods/guaranteed/pod{UID}/{ID}",
    "kubepods.slice/kubepods-burstable.slice",
    f"kubepods.slice/kubepods-pod{UNDERSCORES}.slice",
    f"kubepods.slice/kubepods-pod{UID}.slice/cri-containerd-{ID}.scope",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-besteffort-pod{UNDERSCORES}.slice/crio-{ID}.scope",
    f"kubepods.slice/kubepods-pod{UNDERSCORES}.slice/crio-conmon-{ID}.scope",
    f"system.slice/cri-containerd-{ID}.scope",
]


@pytest.mark.parametrize(("path", "uid", "qos"), CONTAINERS)
def test_finds_pod_and_container_in_a_path(path: str, uid: str, qos: str) -> None:
    cgroup = parse(path)
    assert cgroup is not None
    assert (cgroup.pod_uid, cgroup.container_id, cgroup.qos) == (uid, ID, qos)


@pytest.mark.parametrize("path", OTHERS)
def test_other_cgroups_cannot_be_named(path: str) -> None:
    assert parse(path) is None
    with pytest.raises(ValueError, match="not the cgroup of a container"):
        ContainerCgroup(path)


_PIECES = st.sampled_from(
    [
        "kubepods",
        "pod",
        "/",
        "-",
        "_",
        ".slice",
        ".scope",
        "..",
        "crio-",
        "burstable",
        UID,
        UNDERSCORES,
        ID,
        "\n",
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=14).map("".join)))
def test_any_name_is_read_or_skipped(path: str) -> None:
    cgroup = parse(path)
    if cgroup is not None:
        last = cgroup.path.split("/")[-1]
        assert cgroup.container_id in last
        assert "pod" not in last
        assert ".." not in cgroup.path.split("/")
        assert f"pod{cgroup.pod_uid}" in cgroup.path.replace("_", "-")


@given(st.sampled_from([path for path, _, _ in CONTAINERS]), st.data())
def test_one_wrong_character_is_no_other_cgroup(path: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(path) - 1))
    other = path[:at] + data.draw(st.characters()) + path[at + 1 :]
    cgroup = parse(other)
    assert cgroup is None or cgroup.path.count("/") == path.count("/")


def test_a_long_name_is_skipped_quickly() -> None:
    assert parse("a-" * 100_000 + "kubepods") is None
    assert parse("a-" * 400 + "kubepods.slice/") is None


def test_walks_the_tree_and_nothing_below_a_container(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    wanted = {path for path, _, _ in CONTAINERS}
    for path in wanted:
        (tmp_path / path / "nested" / f"kubepods/pod{UID}" / ID).mkdir(parents=True)
    for strange in ("\udcff", "kubepods/\udcff", f"kubepods/pod{UID}/x y", "system.slice/kubepods/a"):
        (tmp_path / strange).mkdir(parents=True)
    (tmp_path / "kubepods" / "burstable" / "pod-a-file").touch()
    assert {cgroup.path for cgroup in find(Hierarchy(tmp_path))} == wanted


def test_no_tree_has_no_containers(tmp_path: Path) -> None:
    assert find(Hierarchy(tmp_path / "missing")) == []
