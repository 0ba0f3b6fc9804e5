"""Whom the front proxy names, and which front proxy is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.adapter.authentication import (
    CONFIG_MAP,
    FrontProxy,
    FrontProxyError,
    TokenReviews,
    forwarded,
    read_rules,
)
from hpa_replacement.adapter.refusal import Refusal
from surgekit.kube.client import Kube
from surgekit.kube.token_review import Identity
from tests.events_at_once import unreadable
from tests.hpa_replacement.adapter.builders import (
    GOOD_TOKEN,
    FakeKube,
    authentication_data,
    not_allowed_to_ask,
    unreachable,
)

CA = "-----BEGIN CERTIFICATE-----\nxyz\n-----END CERTIFICATE-----\n"
RULES = read_rules(authentication_data(CA))
EVERYBODY = ("system:authenticated",)


@pytest.mark.parametrize(
    ("allowed", "peer", "believed"),
    [
        (("front-proxy-client",), "front-proxy-client", True),
        (("front-proxy-client",), "somebody-else", False),
        (("front-proxy-client",), None, False),
        (("front-proxy-client",), "", False),
        ((), "somebody-else", True),  # kube-apiserver: no names means any that the CA signed
        ((), None, False),
    ],
)
def test_only_allowed_names_are_believed(allowed: tuple[str, ...], peer: str | None, believed: bool) -> None:
    assert read_rules(authentication_data(CA, allowed)).trusts(peer) is believed


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"requestheader-client-ca-file": ""}, "requestheader-client-ca-file"),
        ({"requestheader-username-headers": "[]"}, "requestheader-username-headers"),
        ({"requestheader-username-headers": "X-Remote-User"}, "'X-Remote-User' is not a list of names"),
        ({"requestheader-allowed-names": '{"a": 1}'}, "requestheader-allowed-names"),
        ({"requestheader-group-headers": "[1]"}, "requestheader-group-headers"),
    ],
)
def test_a_config_map_that_will_not_do_is_said(changed: dict[str, str], named: str) -> None:
    with pytest.raises(FrontProxyError, match="kube-system/extension-apiserver-authentication") as error:
        read_rules(authentication_data(CA) | changed)
    assert named in str(error.value)


def test_a_cluster_without_a_front_proxy_is_said() -> None:
    with pytest.raises(FrontProxyError, match="--requestheader-client-ca-file set"):
        read_rules({"client-ca-file": CA})


@pytest.mark.parametrize(
    ("headers", "who"),
    [
        ([("X-REMOTE-USER", "ann")], Identity("ann", "", EVERYBODY)),
        (
            [("X-Remote-User", "ann"), ("X-REMOTE-UID", "7"), *(("X-REMOTE-GROUP", g) for g in "ab")],
            Identity("ann", "7", ("a", "b", *EVERYBODY)),
        ),
        # One group whose name has a comma, as in LDAP; not two.
        (
            [("X-REMOTE-USER", "ann"), ("X-REMOTE-GROUP", "cn=ops,system:masters")],
            Identity("ann", "", ("cn=ops,system:masters", *EVERYBODY)),
        ),
        (
            [
                ("X-REMOTE-USER", "ann"),
                ("X-REMOTE-EXTRA-EXAMPLE.COM%2FPOD-NAME", "p"),
                ("X-REMOTE-EXTRA-SCOPES", "read"),
                ("X-REMOTE-EXTRA-SCOPES", "write"),
            ],
            Identity("ann", "", EVERYBODY, (("example.com/pod-name", ("p",)), ("scopes", ("read", "write")))),
        ),
        ([("X-REMOTE-USER", "J\xc3\xbcrgen")], Identity("Jürgen", "", EVERYBODY)),
        # Not a second time, and not to who is nobody.
        (
            [("X-REMOTE-USER", "ann"), ("X-REMOTE-GROUP", "system:authenticated")],
            Identity("ann", "", EVERYBODY),
        ),
        (
            [("X-REMOTE-USER", "system:anonymous"), ("X-REMOTE-GROUP", "system:unauthenticated")],
            Identity("system:anonymous", "", ("system:unauthenticated",)),
        ),
        ([("X-REMOTE-USER", "\xff\xfe")], None),
        ([("X-REMOTE-USER", "")], None),
        ([("X-REMOTE-GROUP", "system:masters")], None),
        ([], None),
    ],
)  # fmt: skip
def test_whom_the_headers_name(headers: list[tuple[str, str]], who: Identity | None) -> None:
    assert forwarded(RULES, headers) == who


def test_the_headers_names_are_the_config_maps() -> None:
    other = read_rules(authentication_data(CA) | {"requestheader-username-headers": '["X-User", "X-Other"]'})
    who = forwarded(other, [("X-REMOTE-USER", "root"), ("X-USER", ""), ("X-OTHER", "ann")])
    assert who == Identity("ann", "", EVERYBODY)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n")), max_size=5))
def test_every_group_arrives_whole(groups: list[str]) -> None:
    raw = [("X-Remote-Group", group.encode().decode("latin-1")) for group in groups]
    who = forwarded(RULES, [("X-Remote-User", "ann"), *raw])
    assert who == Identity("ann", "", (*groups, *EVERYBODY))


def test_the_config_map_is_followed_and_a_spoilt_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(CA)
    target = tmp_path / "followed.crt"
    kube = cast(Kube, FakeKube(tmp_path / "ca.crt"))
    proxy = FrontProxy(kube, unreadable(kube), target)
    proxy.load()
    assert target.read_text() == CA

    def tell(kind: str, data: Any) -> None:
        proxy.apply(kind, {"metadata": {"name": CONFIG_MAP, "uid": "u"}, "data": data}, 0.0)

    renewed = CA.replace("xyz", "abc")
    tell("MODIFIED", authentication_data(renewed, ("new-name",)))
    assert target.read_text() == renewed
    for kind, data in (("MODIFIED", {}), ("MODIFIED", None), ("DELETED", authentication_data(CA))):
        tell(kind, data)
        assert target.read_text() == renewed
        assert proxy.rules is not None
        assert proxy.rules.allowed_names == {"new-name"}


def test_tokens_are_reviewed_and_remembered_for_a_while(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(CA)
    kube = FakeKube(tmp_path / "ca.crt")
    tokens = TokenReviews(kube)  # type: ignore[arg-type]
    assert tokens.owner(GOOD_TOKEN, 0.0) == Identity("prometheus", "", ("system:authenticated",))
    kube.token_owner = None  # revoked
    assert tokens.owner(GOOD_TOKEN, 9.0).name == "prometheus"
    with pytest.raises(Refusal, match="not valid") as refusal:
        tokens.owner(GOOD_TOKEN, 11.0)
    assert refusal.value.code == 401
    assert len(kube.reviews) == 2


def test_a_token_nobody_can_review_is_not_accepted_nor_remembered(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(CA)
    kube = FakeKube(tmp_path / "ca.crt")
    tokens = TokenReviews(kube)  # type: ignore[arg-type]
    for kube.failing, code in ((unreachable(), 503), (not_allowed_to_ask(), 500)):
        with pytest.raises(Refusal) as refusal:
            tokens.owner(GOOD_TOKEN, 0.0)
        assert refusal.value.code == code
    kube.failing = None
    assert tokens.owner(GOOD_TOKEN, 1.0).name == "prometheus"


def test_junk_is_refused_from_memory_and_pushes_nobody_out(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(CA)
    kube = FakeKube(tmp_path / "ca.crt")
    tokens = TokenReviews(kube)  # type: ignore[arg-type]
    tokens.owner(GOOD_TOKEN, 0.0)
    for number in range(3000):
        for _ in range(2):
            with pytest.raises(Refusal):
                tokens.owner(f"junk {number}", 1.0)
    assert len(kube.reviews) == 1 + 3000, "each token once"
    assert tokens.owner(GOOD_TOKEN, 1.0).name == "prometheus"
    assert len(kube.reviews) == 1 + 3000, "the good one was not forgotten"
    assert len(tokens._refused._kept) <= 1000
