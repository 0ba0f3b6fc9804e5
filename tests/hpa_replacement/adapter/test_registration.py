"""Whose an APIService is, and what is done about it."""

from __future__ import annotations

from typing import Any

import pytest

from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL
from hpa_replacement.adapter.registration import (
    OwnedByAnother,
    Owner,
    Service,
    api_service,
    compare,
    register,
)
from surgekit.kube.client import ApiError

CA, OURS = b"ca", Service()


def changed(**spec: Any) -> dict[str, Any]:
    made = api_service(EXTERNAL, OURS, CA)
    return made | {"metadata": made["metadata"] | {"resourceVersion": "7"}, "spec": made["spec"] | spec}


@pytest.mark.parametrize(
    ("found", "owner", "current", "said"),
    [
        (None, Owner.NOBODY, False, "does not exist"),
        (changed(), Owner.OURS, True, "is ours"),
        (changed(groupPriorityMinimum=2000), Owner.OURS, True, "is ours"),  # the operator's choice
        (changed(caBundle="b2xk"), Owner.OURS, False, "another port or CA"),
        (changed(insecureSkipTLSVerify=True), Owner.OURS, False, "another port or CA"),
        (
            changed(service={"namespace": "surgekit-system", "name": "surgekit-adapter", "port": 8443}),
            Owner.OURS,
            False,
            "another port or CA",
        ),
        (
            changed(service={"namespace": "monitoring", "name": "prometheus-adapter", "port": 443}),
            Owner.ANOTHER,
            False,
            "belongs to service monitoring/prometheus-adapter",
        ),
        (
            changed(service={"namespace": "other", "name": "surgekit-adapter", "port": 443}),
            Owner.ANOTHER,
            False,
            "belongs to service other/surgekit-adapter",
        ),
        (changed(service=None), Owner.ANOTHER, False, "belongs to the API server itself"),
    ],
)
def test_whose_it_is(found: dict[str, Any] | None, owner: Owner, current: bool, said: str) -> None:
    registration = compare(EXTERNAL, found, OURS, CA)
    assert (registration.owner, registration.current) == (owner, current)
    assert "v1beta1.external.metrics.k8s.io" in registration.message
    assert said in registration.message


@pytest.mark.parametrize(("group", "instead"), [(EXTERNAL, "custom metrics"), (CUSTOM, "external metrics")])
def test_what_to_do_about_anothers_is_said(group: str, instead: str) -> None:
    found = changed(service={"namespace": "keda", "name": "keda", "port": 443})
    said = compare(group, found, OURS, CA).message
    for way_out in (instead, "`via: scale`", "remove the other adapter"):
        assert way_out in said


class Cluster:
    def __init__(self, **there: dict[str, Any]) -> None:
        self.there, self.written = there, []  # type: ignore[var-annotated]

    def get(self, path: str) -> dict[str, Any]:
        group = EXTERNAL if EXTERNAL in path else CUSTOM
        if group.split(".")[0] not in self.there:
            raise ApiError(404, "NotFound", path)
        return self.there[group.split(".")[0]]

    def create(self, path: str, body: dict[str, Any]) -> None:
        self.written.append(("create", body["metadata"]["name"]))

    def patch(self, path: str, body: dict[str, Any]) -> None:
        self.written.append((path.rpartition("/")[2], body))


def test_only_what_is_missing_or_old_is_written() -> None:
    cluster = Cluster(external=changed(caBundle="b2xk"))
    register(cluster, [EXTERNAL, CUSTOM], OURS, CA)  # type: ignore[arg-type]
    (patched, body), created = cluster.written
    assert (patched, created) == (
        "v1beta1.external.metrics.k8s.io",
        ("create", "v1beta2.custom.metrics.k8s.io"),
    )
    assert body["metadata"] == {"resourceVersion": "7"}, "of the version that was looked at"
    assert body["spec"]["caBundle"] == "Y2E="
    cluster = Cluster(external=changed())
    register(cluster, [EXTERNAL], OURS, CA)  # type: ignore[arg-type]
    assert not cluster.written


def test_nothing_is_written_where_one_is_anothers() -> None:
    cluster = Cluster(custom=changed(service={"namespace": "keda", "name": "keda", "port": 443}))
    with pytest.raises(OwnedByAnother, match="keda/keda"):
        register(cluster, [EXTERNAL, CUSTOM], OURS, CA)  # type: ignore[arg-type]
    assert not cluster.written


def test_an_answer_that_is_no_answer_is_not_absence() -> None:
    class Refusing(Cluster):
        def get(self, path: str) -> dict[str, Any]:
            raise ApiError(403, "Forbidden", path)

    with pytest.raises(ApiError):
        register(Refusing(), [EXTERNAL], OURS, CA)  # type: ignore[arg-type]


class Busy(Cluster):
    """Somebody else writes in between: `conflicts` times, and then there is `after`."""

    conflicts = 1
    after = changed(caBundle="b2xk")

    def patch(self, path: str, body: dict[str, Any]) -> None:
        if self.conflicts:
            self.conflicts -= 1
            self.there = {"external": self.after}
            raise ApiError(409, "Conflict", path)
        super().patch(path, body)


def test_a_status_written_meanwhile_is_no_reason_to_fail() -> None:
    cluster = Busy(external=changed(caBundle="b2xk"))
    (found,) = register(cluster, [EXTERNAL], OURS, CA)  # type: ignore[arg-type]
    assert (found.owner, found.current) == (Owner.OURS, False), "as it was found"
    assert len(cluster.written) == 1


def test_one_that_another_took_meanwhile_is_left_alone() -> None:
    cluster = Busy(external=changed(caBundle="b2xk"))
    cluster.after = changed(service={"namespace": "keda", "name": "keda", "port": 443})
    with pytest.raises(OwnedByAnother, match="keda/keda"):
        register(cluster, [EXTERNAL], OURS, CA)  # type: ignore[arg-type]
    assert not cluster.written


def test_conflicts_without_end_are_an_error() -> None:
    cluster = Busy(external=changed(caBundle="b2xk"))
    cluster.conflicts = 100
    with pytest.raises(ApiError):
        register(cluster, [EXTERNAL], OURS, CA)  # type: ignore[arg-type]
