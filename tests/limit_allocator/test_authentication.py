"""Who may speak for which node. The API server's own answers: tests/manifests/test_agents_tokens.py."""

from __future__ import annotations

import re
from typing import Any

import pytest

from limit_allocator.authentication import AUDIENCE, NodeTokens, NotAnAgent, node_of
from limit_allocator.settings import Settings
from limit_allocator.wire.bearer import metadata_of, token_in
from surgekit.kube.token_review import Identity

ACCOUNT = Settings().agent_account
NODE = "authentication.kubernetes.io/node-name"


def identity(name: str = ACCOUNT, **extra: tuple[str, ...]) -> Identity:
    return Identity(
        name, extra=tuple((NODE if key == "node" else key, value) for key, value in extra.items())
    )


def test_the_node_is_what_the_api_server_says() -> None:
    assert node_of(identity(pod=("p",), node=("node-1",)), ACCOUNT) == "node-1"


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (None, "not valid"),
        (identity("system:serviceaccount:shop:surgekit-limit-agent", node=("node-1",)), "not of"),
        (identity(), "names no node"),
        (identity(node=()), "names no node"),
        (identity(node=("",)), "names no node"),
        (identity(node=("node-1", "node-2")), "names no node"),
    ],
)
def test_everybody_else_is_no_agent(owner: Identity | None, why: str) -> None:
    with pytest.raises(NotAnAgent, match=why):
        node_of(owner, ACCOUNT)


class Reviewer:
    def __init__(self, status: dict[str, Any]) -> None:
        self.status, self.asked = status, list[Any]()

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((path, body["spec"]))
        return {"status": self.status}


OWNER = {"username": ACCOUNT, "extra": {NODE: ["node-1"]}}


def test_the_token_must_be_for_us() -> None:
    kube = Reviewer({"authenticated": True, "audiences": [AUDIENCE], "user": OWNER})
    assert NodeTokens(kube, ACCOUNT).node_of("t") == "node-1"  # type: ignore[arg-type]
    asked = {"token": "t", "audiences": [AUDIENCE]}
    assert kube.asked == [("/apis/authentication.k8s.io/v1/tokenreviews", asked)]


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "error": "expired"},
        {"authenticated": True, "user": OWNER},  # by an authenticator without audiences
        {"authenticated": True, "audiences": ["another"], "user": OWNER},
    ],
)
def test_a_token_of_another_audience_is_not_valid(status: dict[str, Any]) -> None:
    with pytest.raises(NotAnAgent, match="not valid"):
        NodeTokens(Reviewer(status), ACCOUNT).node_of("t")  # type: ignore[arg-type]


def test_without_a_token_nobody_is_asked() -> None:
    kube = Reviewer({})
    with pytest.raises(NotAnAgent, match=re.escape("must show its token")):
        NodeTokens(kube, ACCOUNT).node_of("")  # type: ignore[arg-type]
    assert kube.asked == []


@pytest.mark.parametrize(
    ("metadata", "token"),
    [
        (metadata_of("t"), "t"),
        (metadata_of(""), ""),
        ((("authorization", "Basic t"),), ""),
        ((("authorization", b"Bearer t"),), ""),
        ((("authorization", "Bearer t"), ("authorization", "Bearer u")), ""),
        ((("user-agent", "x"), ("authorization", "Bearer t")), "t"),
    ],
)
def test_one_bearer_token_and_nothing_else(metadata: Any, token: str) -> None:
    assert token_in(metadata) == token
