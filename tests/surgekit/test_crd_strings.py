"""Every string that our CRDs take has a bound, every name the grammar of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.paths import ROOT

Json = dict[str, Any]
MANIFESTS = ROOT / "manifests"
CRDS = [
    document
    for file in sorted(MANIFESTS.rglob("*.yaml"))
    if "kind: CustomResourceDefinition" in file.read_text()
    for document in yaml.safe_load_all(file.read_text())
    if document["kind"] == "CustomResourceDefinition"
]
NAMES = ("name", "kind", "apiVersion", "namespace", "container", "function")


def strings(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    if schema.get("type") == "string":
        yield path, schema
    for name, part in (schema.get("properties") or {}).items():
        yield from strings(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from strings(schema[key], f"{path}[]")


@pytest.mark.parametrize("crd", CRDS, ids=lambda crd: crd["spec"]["names"]["kind"])
def test_every_string_is_bounded_and_every_name_has_a_form(crd: Json) -> None:
    wrong = []
    for version in crd["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for path, schema in strings(spec, "spec"):
            if "enum" not in schema and "maxLength" not in schema:
                wrong.append(f"{path} has no maxLength")
            formed = "enum" in schema or "pattern" in schema or "x-kubernetes-validations" in schema
            if path.rpartition(".")[2] in NAMES and not formed:
                wrong.append(f"{path} has no pattern")
    assert wrong == []


def test_all_our_kinds_were_looked_at() -> None:
    kinds = {crd["spec"]["names"]["kind"] for crd in CRDS}
    assert kinds >= {
        "KneePolicy",
        "ComboFunc",
        "InPlaceDeployment",
        "NodePlan",
        "NodeSpeed",
        "DistributedContainer",
    }
