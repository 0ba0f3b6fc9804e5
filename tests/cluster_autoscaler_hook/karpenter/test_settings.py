"""Settings that cannot be used are refused by name and value; the manifests name every key."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cluster_autoscaler_hook.catalogue import load as load_catalogue
from cluster_autoscaler_hook.karpenter.controller import LEASE_NAME
from cluster_autoscaler_hook.karpenter.labels import GATE, OPT_IN_LABEL, POOL_LABEL
from cluster_autoscaler_hook.karpenter.settings import Settings
from surgekit.process.modes import Mode
from surgekit.process.settings import SettingsError, load
from tests.paths import ROOT

NODE_CLASS = {
    "node_class_group": "karpenter.k8s.aws",
    "node_class_kind": "EC2NodeClass",
    "node_class_name": "default",
}
MANIFESTS = ROOT / "manifests" / "karpenter"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"pool": "Über"}, "pool"),
        ({"expire_after": "a month"}, "expire_after"),
        ({"variant": "fast"}, "variant"),
        ({"variant": "ffc"}, "neither best nor paper"),
        ({"arm64_classes": "("}, "arm64_classes"),
        ({"batch_idle_s": 9.0, "batch_max_s": 1.0}, "batch_max_s"),
        ({"max_nodes": -1}, "max_nodes"),
        ({"mode": "enforce"}, "node_class_group: '' must name the node class"),
        ({"mode": "enforce"} | NODE_CLASS, "catalogue: None must name a file with your prices"),
        ({"mode": "enforce", "catalogue": "p.yaml", "node_class_group": "g"}, "node_class_kind: ''"),
    ],
)
def test_a_bad_setting_is_named(given: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError, match=key) as caught:
        load(Settings, None, environ={}, **given)
    assert "\n" not in str(caught.value)


def test_it_starts_in_shadow_and_goes_live_with_a_node_class_and_prices() -> None:
    assert Settings().mode is Mode.SHADOW
    live = load(Settings, None, environ={}, mode="enforce", catalogue="prices.yaml", **NODE_CLASS)
    assert live.mode is Mode.ENFORCE


def test_the_shipped_prices_are_a_sample_that_can_be_read() -> None:
    assert load_catalogue(MANIFESTS / "catalogue.yaml").sample


def test_the_role_names_the_lease_of_the_code() -> None:
    documents = yaml.safe_load_all((MANIFESTS / "rbac.yaml").read_text())
    named = [r["resourceNames"] for d in documents for r in d.get("rules", []) if "resourceNames" in r]
    assert named == [[LEASE_NAME]]


def test_the_policies_name_the_gate_label_taint_and_account_of_the_code() -> None:
    opt_in = (MANIFESTS / "opt-in" / "policy.yaml").read_text()
    writes = (MANIFESTS / "admissionpolicy.yaml").read_text()
    bindings = (MANIFESTS / "opt-in" / "bindings.yaml").read_text()
    assert opt_in.count(f"name == '{GATE}'") == opt_in.count(f"{{name: '{GATE}'}}") == 1
    assert writes.count(f"g.name == '{GATE}'") == writes.count(f"g.name != '{GATE}'") == 1
    assert f"key: '{POOL_LABEL}'" in opt_in
    assert f"'{POOL_LABEL}' in" in writes
    assert bindings.count(f"{OPT_IN_LABEL}: enforce") == 2
    account = yaml.safe_load((MANIFESTS / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    assert f"'system:serviceaccount:surgekit-system:{account['serviceAccountName']}'" in writes
    assert GATE != OPT_IN_LABEL
