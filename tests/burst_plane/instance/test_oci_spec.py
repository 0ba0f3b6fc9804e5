"""What a runtime is told: whatever a tenant or an image says, the frame stays."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.image import ImageConfig, read_config
from burst_plane.instance.oci_spec import CAPABILITIES, Place, SpecError, oci_spec
from burst_plane.model import InstanceSpec, Security

PLACE = Place(
    root="/run/burst/i/root", network="/run/burst/n", cgroup="/surgekit-burst/i", hostname="i",
    temporary="/run/burst/i/tmp", files=(("/etc/hosts", "/run/burst/i/hosts"),),
)  # fmt: skip
SPEC = InstanceSpec(image="image", command=("/function",))

# JSON may hold lone surrogates, zero bytes and whatever else.
TEXT = st.text(st.characters(codec=None), max_size=30)
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
SPECS = st.builds(
    InstanceSpec,
    image=TEXT,
    command=TEXTS,
    args=TEXTS,
    env=st.lists(st.tuples(TEXT, TEXT), max_size=4).map(tuple),
    working_directory=TEXT | st.sampled_from(["/proc/self/fd/7", "//proc/1", "/a/../proc", "/app", "app"]),
    cpu_millis=st.integers(1, 10_000),
    memory_bytes=st.integers(1, 1 << 40),
    pids=st.integers(1, 4096),
    security=st.builds(
        Security,
        uid=st.sampled_from([0, 1000]),
        gid=st.just(1),
        capabilities=st.lists(
            TEXT | st.sampled_from([*sorted(CAPABILITIES), "CAP_SYS_ADMIN"]), max_size=3
        ).map(tuple),
        read_only_root=st.booleans(),
    ),
)
CONFIGS = st.builds(ImageConfig, TEXTS, TEXTS, TEXTS, TEXT)


def made(spec: InstanceSpec = SPEC, image: ImageConfig | None = None) -> dict[str, Any]:
    return oci_spec(spec, image or ImageConfig(), PLACE, "x86_64", True)


@given(SPECS, CONFIGS)
def test_nothing_a_tenant_says_leaves_the_frame(spec: InstanceSpec, image: ImageConfig) -> None:
    try:
        described = made(spec, image)
    except SpecError:
        return
    msgspec.json.encode(described)  # a runtime can read it
    process, linux = described["process"], described["linux"]
    assert process["noNewPrivileges"] is True
    assert set(process["capabilities"]["bounding"]) <= CAPABILITIES
    assert "ambient" not in process["capabilities"]
    assert "inheritable" not in process["capabilities"]
    if spec.security.uid != 0:
        assert process["capabilities"]["effective"] == []
    assert {each["type"] for each in linux["namespaces"]} == {
        "network",
        "pid",
        "ipc",
        "uts",
        "mount",
        "cgroup",
    }
    assert linux["cgroupsPath"] == PLACE.cgroup
    assert described["root"]["path"] == PLACE.root
    # Of the node nothing is mounted but what the agent wrote for it.
    sources = [each["source"] for each in described["mounts"] if each["type"] == "bind"]
    assert sources == [PLACE.temporary, *(file for _, file in PLACE.files)]
    assert linux["resources"]["devices"] == [{"allow": False, "access": "rwm"}]
    assert linux["resources"]["memory"]["limit"] == spec.memory_bytes
    assert linux["resources"]["pids"]["limit"] == spec.pids
    assert linux["resources"]["cpu"]["quota"] >= 1000
    assert all("\0" not in each for each in (*process["args"], *process["env"], process["cwd"]))
    assert process["cwd"].startswith("/")
    assert "hooks" not in described
    assert "devices" not in linux


@pytest.mark.parametrize(
    ("command", "args", "entrypoint", "cmd", "runs"),
    [  # kubernetes.io/docs/tasks/inject-data-application/define-command-argument-container
        ((), (), ("/ep",), ("foo", "bar"), ["/ep", "foo", "bar"]),
        (("/other",), (), ("/ep",), ("foo", "bar"), ["/other"]),
        ((), ("zoo",), ("/ep",), ("foo", "bar"), ["/ep", "zoo"]),
        (("/other",), ("zoo",), ("/ep",), ("foo", "bar"), ["/other", "zoo"]),
    ],
)
def test_kubernetes_rule_of_command_and_arguments(
    command: tuple[str, ...], args: tuple[str, ...], entrypoint: tuple[str, ...], cmd: tuple[str, ...],
    runs: list[str],
) -> None:  # fmt: skip
    spec = InstanceSpec(image="image", command=command, args=args)
    assert made(spec, ImageConfig(entrypoint, cmd))["process"]["args"] == runs


def test_the_pods_variables_come_before_the_images() -> None:
    spec = msgspec.structs.replace(SPEC, env=(("A", "pod"), ("A", "pod's last"), ("E", "x=y")))
    env = made(spec, ImageConfig(env=("A=image", "B=image", "PATH=/bin")))["process"]["env"]
    assert sorted(env) == ["A=pod's last", "B=image", "E=x=y", "HOSTNAME=i", "PATH=/bin"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": ()}, "what to run"),
        ({"args": ("a\0b",)}, "zero byte"),
        ({"env": (("A", "\ud800"),)}, "UTF-8"),
        ({"working_directory": "/proc/self/fd/7"}, "working directory"),
        ({"working_directory": "/x/../proc/self"}, "working directory"),
        ({"working_directory": "app"}, "working directory"),
        ({"security": Security(uid=0, gid=0, capabilities=("CAP_SYS_ADMIN",))}, "CAP_SYS_ADMIN"),
        ({"security": Security(uid=0, gid=0, capabilities=("CAP_NET_RAW",))}, "CAP_NET_RAW"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        made(msgspec.structs.replace(SPEC, **changes))


def test_a_hostile_image_cannot_choose_where_it_starts() -> None:
    config = read_config(b'{"config": {"Cmd": ["/x"], "WorkingDir": "/proc/self/fd/7"}}')
    with pytest.raises(SpecError, match="working directory"):
        made(InstanceSpec(image="image"), config)


def test_seccomp_is_there_unless_it_was_given_up() -> None:
    assert made()["linux"]["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
    free = msgspec.structs.replace(SPEC, security=Security(uid=1, gid=1, seccomp=False))
    assert "seccomp" not in made(free)["linux"]
