"""What tests share: the command line, and one lab for the session with a namespace for each test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

from kwok import real_node
from kwok.binaries import CONTAINERS, CORE, COREDNS, REAL_NODE, Binaries, Group
from kwok.errors import BinariesError
from kwok.lab import NODE_MODEL, Lab
from kwok.pods import wait_for_account
from kwok.scenario import Scenario
from tests.browser import browser
from tests.commands import Commands

__all__ = ["browser"]  # a fixture

# A property says what holds, not how fast: on busy cores any example may take more than hypothesis's 200 ms.
settings.register_profile("surgekit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("surgekit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files anew, then look at the diff"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with a long test come first, or one worker has nothing left to do while the other runs them.

    The rest stays by directory: a lab that a directory's files share is kept from one to the next.
    """
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """Runs `surgekit` commands."""
    with Commands() as commands:
        yield commands


@pytest.fixture(scope="session")
def built() -> Callable[..., Binaries]:
    """Builds groups of binaries, or skips with the reason.

    Call it before anything with a time limit: on a new machine a build takes minutes.
    """
    binaries = Binaries()

    def build(*groups: Group) -> Binaries:
        for group in groups:
            try:
                binaries.directory(group)
            except BinariesError as error:
                pytest.skip(f"the binaries of {group.name} cannot be had: {error}")
        return binaries

    return build


@pytest.fixture(scope="session")
def binaries(built: Callable[..., Binaries]) -> Binaries:
    """The control-plane binaries, built if need be."""
    return built(*CORE)


@pytest.fixture(scope="session")
def real_node_binaries(built: Callable[..., Binaries]) -> Binaries:
    """What a lab with real nodes and images needs."""
    if reason := real_node.why_no_real_node():
        pytest.skip(f"no real node: {reason}")
    return built(*CORE, REAL_NODE, COREDNS, CONTAINERS)


@pytest.fixture(scope="session")
def lab(binaries: Binaries) -> Iterator[Lab]:
    """A lab with four nodes `node-0` to `node-3`; no scheduler and no node model runs until asked for."""
    with Lab.temporary("test") as lab:
        lab.add_nodes(4)
        yield lab


@pytest.fixture
def namespace(lab: Lab) -> Iterator[str]:
    """A fresh namespace that admits pods; its pods are gone afterwards."""
    name = f"test-{secrets.token_hex(3)}"
    lab.kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    wait_for_account(lab.kube, name)
    yield name
    lab.kube.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0)
    lab.kube.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def node_model(lab: Lab) -> Iterator[Callable[[Scenario], object]]:
    """Starts the node model with a scenario; stopped after the test."""
    yield lab.start_node_model
    lab.stop(NODE_MODEL)
