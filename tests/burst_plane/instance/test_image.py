"""Names and configurations of images, hostile ones included."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.image import (
    ImageConfig,
    ImageNameError,
    allowed,
    credentials,
    full_name,
    read_config,
)

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.2", "docker.io/library/nginx:1.2"),
        ("team/app", "docker.io/team/app:latest"),
        ("localhost/app:lab", "localhost/app:lab"),
        ("registry.example:5000/a/b", "registry.example:5000/a/b:latest"),
        (f"registry.example/a@{DIGEST}", f"registry.example/a@{DIGEST}"),
    ],
)
def test_full_names(name: str, full: str) -> None:
    assert full_name(name) == full
    assert full_name(full) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        "--all",
        "-x",
        "a b",
        "../etc",
        "localhost/../x",
        "A",
        "a\n",
        "a;b",
        "a@sha256:1",
        "x/" * 300 + "x",
        "é",
    ],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ImageNameError):
        full_name(name)


@given(st.text(max_size=60))
def test_a_name_is_never_an_option_or_a_path(name: str) -> None:
    try:
        full = full_name(name)
    except ImageNameError:
        return
    assert full[0].isalnum()
    assert ".." not in full.split("/")
    assert not any(c.isspace() or c in "'\"$`;&|<>\\\0" for c in full)


@pytest.mark.parametrize(
    ("prefix", "full", "is_allowed"),
    [
        ("registry.example/team", "registry.example/team/app:1", True),
        ("registry.example/team", "registry.example/team:1", True),
        ("registry.example/team", "registry.example/team-of-others/app:1", False),
        ("registry.example/team/", "registry.example/team/app:1", True),
        ("registry.example", "registry.example.evil/app:1", False),
        ("registry.example", "registry.example:5000/app:1", True),  # the same host
        ("", "registry.example/app:1", False),
    ],
)
def test_the_list_of_allowed_images(prefix: str, full: str, is_allowed: bool) -> None:
    assert allowed(full, [prefix]) is is_allowed


def test_without_a_list_all_images_are_allowed() -> None:
    assert allowed("registry.example/app:1", [])


def document(**auths: object) -> str:
    return json.dumps({"auths": {key.replace("_", "."): value for key, value in auths.items()}})


def auth(text: str) -> dict[str, str]:
    return {"auth": base64.b64encode(text.encode()).decode()}


def test_credentials_are_those_of_the_images_registry() -> None:
    both = json.dumps(
        {
            "auths": {
                "https://index.docker.io/v1/": auth("hub:pw"),
                "registry.example": auth("all:pw"),
                "registry.example/team": {"username": "team", "password": "pw:with:colons"},
            }
        }
    )
    assert credentials(both, "docker.io/library/x:1").user == "hub"  # type: ignore[union-attr]
    team = credentials(both, "registry.example/team/x:1")
    assert team is not None
    assert (team.user, team.password) == ("team", "pw:with:colons")
    assert credentials(both, "registry.example/other:1").user == "all"  # type: ignore[union-attr]
    assert credentials(both, "registry.example.evil/x:1") is None
    assert "pw" not in repr(team)


@pytest.mark.parametrize("text", ["u:p\nrm", "u:p\x03", "u:", ":p", "no-colon"])
def test_credentials_that_cannot_be_typed_into_a_prompt(text: str) -> None:
    assert credentials(document(localhost=auth(text)), "localhost/x:1") is None


@given(st.text(max_size=100) | st.recursive(
    st.none() | st.booleans() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(
        st.sampled_from(["auths", "localhost", "auth", "username", "password", "config", "Env", "Cmd"]), each
    ),
).map(json.dumps))  # fmt: skip
def test_documents_of_any_shape_are_read_without_an_error(text: str) -> None:
    credentials(text, "localhost/x:1")
    config = read_config(text.encode(errors="surrogatepass"))
    assert all(isinstance(each, str) for each in (*config.entrypoint, *config.command, *config.env))
    assert isinstance(config.working_directory, str)


def test_an_images_configuration() -> None:
    of = {"Entrypoint": ["/a"], "Cmd": ["b"], "Env": ["A=1", "broken"], "WorkingDir": "/w"}
    assert read_config(json.dumps({"config": of}).encode()) == ImageConfig(("/a",), ("b",), ("A=1",), "/w")
    assert read_config(b"[" * 100_000) == ImageConfig()
