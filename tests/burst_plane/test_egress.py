"""Which NetworkPolicies make a function ineligible."""

from __future__ import annotations

from typing import Any

import pytest

from burst_plane.egress import forbidding, read_policy


def policy(**spec: Any) -> Any:
    return read_policy({"metadata": {"namespace": "shop", "name": "p"}, "spec": {"podSelector": {}} | spec})


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        ({"policyTypes": ["Ingress"]}, False),
        ({"policyTypes": ["Egress"]}, True),  # denies everything
        ({"egress": [{"to": []}]}, True),
        ({"policyTypes": ["Ingress", "Egress"], "egress": [{}]}, False),  # allows everything
        ({"policyTypes": ["Ingress"], "egress": [{"to": []}]}, False),
        ({}, False),
    ],
)
def test_a_policy_that_limits_egress(spec: dict[str, Any], limits: bool) -> None:
    assert (policy(**spec) is not None) is limits


def test_only_policies_that_select_the_pods_count() -> None:
    found = policy(policyTypes=["Egress"], podSelector={"matchLabels": {"app": "a"}})
    assert "NetworkPolicy p" in forbidding([found], {"app": "a"})
    assert forbidding([found], {"app": "b"}) == ""


def test_a_policy_that_cannot_be_read_counts_for_every_pod() -> None:
    found = policy(policyTypes=["Egress"], podSelector={"matchLabels": {"app": ["a"]}})
    assert forbidding([found], {"app": "b"})
