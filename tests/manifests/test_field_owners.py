"""docs/architecture.md says who owns which field: its writers are those that RBAC lets write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.manifests.installed_cluster import MANIFESTS
from tests.paths import ROOT

Json = dict[str, Any]
SHORT = {"allocator": "surgekit-limit-allocator", "planner": "surgekit-node-planner"}
READS = {"get", "list", "watch"}
# Of a process itself, not of what it looks after.
OWN_AFFAIRS = {"leases", "events", "secrets", "tokenreviews", "subjectaccessreviews"}


def written_in_the_table() -> set[tuple[str, str]]:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.split("## Who owns which field")[1].split("\n## ")[0]
    rows = [line.split("|")[2:4] for line in table.splitlines() if line.startswith("|")][2:]
    return {
        (SHORT.get(writer, writer), resource)
        for resources, writers in rows
        for resource in re.findall(r"`([^`]+)`", resources)
        for writer in re.findall(r"`([^`]+)`", writers)
    }


def documents() -> Iterator[Json]:
    for file in sorted(MANIFESTS.rglob("*.yaml")):
        if "kustomization" not in file.name and "overlays" not in file.parts:
            yield from (d for d in yaml.safe_load_all(file.read_text()) if isinstance(d, dict))


def allowed_by_rbac() -> set[tuple[str, str]]:
    found = [d for d in documents() if d.get("kind") in ("ClusterRole", "ClusterRoleBinding")]
    roles = {d["metadata"]["name"]: d for d in found if d["kind"] == "ClusterRole"}
    return {
        (subject["name"], resource)
        for binding in found
        if binding["kind"] == "ClusterRoleBinding"
        for rule in roles.get(binding["roleRef"]["name"], {}).get("rules") or ()
        if set(rule["verbs"]) - READS
        for resource in rule["resources"]
        if resource not in OWN_AFFAIRS
        for subject in binding["subjects"]
    }


def test_the_table_has_every_write_that_rbac_allows() -> None:
    missing = allowed_by_rbac() - written_in_the_table()
    assert not missing


def test_every_writer_in_the_table_may_write() -> None:
    """A row may name several resources and several writers: each of them has one of the others."""
    allowed, written = allowed_by_rbac(), written_in_the_table()
    assert {writer for writer, _ in written} <= {writer for writer, _ in allowed}
    assert {resource for _, resource in written} <= {resource for _, resource in allowed}
