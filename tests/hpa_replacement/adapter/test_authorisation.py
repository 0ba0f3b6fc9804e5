"""Every answer comes from the API server or from memory of it; no answer is a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpa_replacement.adapter.authorisation import AccessRequest, Authoriser, review
from hpa_replacement.adapter.expiring import Expiring
from hpa_replacement.adapter.refusal import Refusal
from surgekit.kube.token_review import Identity
from tests.hpa_replacement.adapter.builders import FakeKube, not_allowed_to_ask, unreachable

HPA, ANN = Identity("hpa", "7", ("a", "b"), (("k", ("v", "w")),)), Identity("ann")
METRIC = AccessRequest("list", "", "external.metrics.k8s.io", "v1beta1", "knee-replicas", "", "shop")


@pytest.fixture
def kube(tmp_path: Path) -> FakeKube:
    (tmp_path / "ca.crt").write_text("")
    return FakeKube(tmp_path / "ca.crt")


def code(authoriser: Authoriser, who: Identity, asked: AccessRequest, now_s: float) -> int:
    try:
        authoriser.check(who, asked, now_s)
    except Refusal as refusal:
        return refusal.code
    return 200


def test_the_review_says_all_that_is_known() -> None:
    assert review(HPA, METRIC)["spec"] == {
        "user": "hpa",
        "uid": "7",
        "groups": ["a", "b"],
        "extra": {"k": ["v", "w"]},
        "resourceAttributes": {
            "verb": "list", "group": "external.metrics.k8s.io", "version": "v1beta1",
            "resource": "knee-replicas", "subresource": "", "namespace": "shop", "name": "",
        },
    }  # fmt: skip
    assert review(ANN, AccessRequest("get", path="/apis"))["spec"] == {
        "user": "ann",
        "uid": "",
        "groups": [],
        "extra": {},
        "nonResourceAttributes": {"path": "/apis", "verb": "get"},
    }


def test_allowed_and_denied_are_remembered_apart(kube: FakeKube) -> None:
    authoriser = Authoriser(kube, allowed_for_s=60.0, denied_for_s=10.0)  # type: ignore[arg-type]
    assert (code(authoriser, HPA, METRIC, 0.0), code(authoriser, ANN, METRIC, 0.0)) == (200, 403)
    kube.may = {"ann"}
    assert (code(authoriser, HPA, METRIC, 9.0), code(authoriser, ANN, METRIC, 9.0)) == (200, 403)
    assert len(kube.reviews) == 2
    assert (code(authoriser, HPA, METRIC, 11.0), code(authoriser, ANN, METRIC, 11.0)) == (200, 200)
    assert code(authoriser, HPA, METRIC, 61.0) == 403


@pytest.mark.parametrize(
    ("who", "asked"),
    [
        (Identity("hpa", "8", HPA.groups, HPA.extra), METRIC),
        (Identity("hpa", "7", ("a",), HPA.extra), METRIC),
        (Identity("hpa", "7", HPA.groups), METRIC),
        (HPA, AccessRequest("get", "", METRIC.group, METRIC.version, METRIC.resource, "", "shop")),
        (HPA, AccessRequest("list", "", METRIC.group, METRIC.version, METRIC.resource, "", "other")),
        (HPA, AccessRequest("list", "", METRIC.group, METRIC.version, METRIC.resource, "", "shop", "x")),
        (HPA, AccessRequest("list", path="/apis")),
    ],
)
def test_another_question_is_asked_anew(kube: FakeKube, who: Identity, asked: AccessRequest) -> None:
    authoriser = Authoriser(kube, 60.0, 10.0)  # type: ignore[arg-type]
    authoriser.check(HPA, METRIC, 0.0)
    kube.may = set()
    assert code(authoriser, who, asked, 0.0) == 403


def test_no_answer_is_a_refusal_and_is_not_remembered(kube: FakeKube) -> None:
    authoriser = Authoriser(kube, 60.0, 10.0)  # type: ignore[arg-type]
    for kube.failing, expected in ((unreachable(), 503), (not_allowed_to_ask(), 500)):
        assert code(authoriser, HPA, METRIC, 0.0) == expected
    kube.failing = None
    assert code(authoriser, HPA, METRIC, 0.0) == 200
    kube.failing = unreachable()
    assert code(authoriser, HPA, METRIC, 59.0) == 200, "what was allowed a moment ago still is"
    assert code(authoriser, HPA, METRIC, 61.0) == 503


def test_an_evaluation_error_is_a_denial(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "create", lambda *_, **__: {"status": {"evaluationError": "webhook down"}})
    authoriser = Authoriser(kube, 60.0, 10.0)  # type: ignore[arg-type]
    with pytest.raises(Refusal, match=r"User 'hpa' cannot list resource 'knee-replicas'.*webhook down"):
        authoriser.check(HPA, METRIC, 0.0)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20), st.integers(0, 20)), max_size=40),
    st.integers(1, 4),
)
def test_memory_never_returns_what_has_expired_nor_grows(
    steps: list[tuple[int, int, int]], at_most: int
) -> None:
    kept: Expiring[int, int] = Expiring(at_most)
    last: dict[int, tuple[int, int]] = {}
    for serial, (key, until_s, now_s) in enumerate(steps):
        kept.put(key, serial, until_s)
        last[key] = (until_s, serial)
        for known, (until, value) in last.items():
            found = kept.get(known, now_s)
            assert found in (None, value)
            assert found is None or now_s < until
        assert kept.get(key, now_s) == (serial if now_s < until_s else None)
        assert len(kept._kept) <= at_most


def test_what_is_denied_pushes_out_nothing_that_is_allowed(kube: FakeKube) -> None:
    authoriser = Authoriser(kube, 60.0, 10.0)  # type: ignore[arg-type]
    authoriser.check(Identity("hpa"), AccessRequest("get", path="/apis"), 0.0)
    for number in range(25_000):
        with pytest.raises(Refusal):
            authoriser.check(Identity("ann"), AccessRequest("get", path=f"/{number}"), 1.0)
    asked = len(kube.reviews)
    authoriser.check(Identity("hpa"), AccessRequest("get", path="/apis"), 1.0)
    assert len(kube.reviews) == asked
    assert len(authoriser._denied._kept) <= 2000
