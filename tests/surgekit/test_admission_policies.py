"""Policies that name fields one by one, because CEL cannot say 'everything else'."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.paths import ROOT

# v1.PodStatus of k8s.io/api v0.36.3, without the one field that our controllers set.
POD_STATUS = {
    "observedGeneration", "phase", "conditions", "message", "reason", "hostIP", "hostIPs", "podIP",
    "podIPs", "startTime", "initContainerStatuses", "containerStatuses", "qosClass",
    "ephemeralContainerStatuses", "resize", "resourceClaimStatuses", "extendedResourceClaimStatus",
    "allocatedResources", "resources", "nodeAllocatableResourceClaimStatuses",
}  # fmt: skip


def expressions(part: str) -> str:
    documents = yaml.safe_load_all((ROOT / f"manifests/{part}/admissionpolicy.yaml").read_text())
    rules: list[dict[str, Any]] = [
        rule for document in documents for rule in document.get("spec", {}).get("validations", ())
    ]
    return " ".join(" ".join(rule["expression"].split()) for rule in rules)


@pytest.mark.parametrize("part", ["combofunc", "karpenter"])
def test_of_a_pods_status_a_controller_changes_its_nomination_only(part: str) -> None:
    said = expressions(part)
    open_ = {f for f in POD_STATUS if f"object.status.?{f} == oldObject.status.?{f}" not in said}
    assert open_ == set()
