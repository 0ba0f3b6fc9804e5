"""One lab for all tests of the manifests: surgekit installed as the README says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwok.binaries import Binaries
from kwok.lab import Lab
from kwok.pods import wait_for_account
from tests.manifests.installed_cluster import MANIFESTS, PLACEMENT, wait_for_opt_in


@pytest.fixture(scope="package")
def installed(binaries: Binaries) -> Iterator[Lab]:
    """Nodes, a stock scheduler, and surgekit installed as the README says.

    In a lab of its own: an admission policy for all pods would reach other tests' pods as well.
    """
    with Lab.temporary("manifests", instant_pods=True) as lab:
        lab.add_nodes(3)
        lab.start_scheduler()
        for directory in (
            "overlays/self-signed",
            "overlays/second-scheduler",
            "base/opt-in",
            "kneescale",
            "combofunc",
            "adapter",
            "limit-allocator",
            "burst-plane",
            "view",
        ):
            lab.apply(MANIFESTS / directory)
        yield lab


@pytest.fixture(scope="package")
def namespaces(installed: Lab) -> Lab:
    """Namespaces `on`, `watching`, `refusing` and `silent`, and the policy known to be in force."""
    for name, value in (("on", "enforce"), ("watching", "shadow"), ("refusing", "off"), ("silent", None)):
        metadata = {"name": name, "labels": {PLACEMENT: value} if value else {}}
        installed.kube.create(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        )
        wait_for_account(installed.kube, name)
    wait_for_opt_in(installed)
    return installed
