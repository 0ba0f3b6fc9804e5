"""The Vertical Pod Autoscaler's own recommender, which must be built."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from experiments.escra.vpa import Recommender
from kwok.binaries import VPA_RECOMMENDER, Binaries

pytestmark = [pytest.mark.lab, pytest.mark.long]  # a first build takes minutes
MARGIN = 1.15  # its --recommendation-margin-fraction
BUCKETS = 1.05  # of its histogram: a value is known to this factor


@pytest.fixture
def recommender(built: Callable[..., Binaries]) -> Iterator[Recommender]:
    built(VPA_RECOMMENDER)
    recommender = Recommender(half_life_s=86_400.0)
    yield recommender
    recommender.close()


def sample(cores: float, mib: float, killed_at_mib: float = 0.0) -> dict[str, dict[str, float]]:
    return {"c": {"cores": cores, "mib": mib, "killed_at_mib": killed_at_mib}}


def test_targets_are_a_margin_above_what_is_seldom_passed(recommender: Recommender) -> None:
    for _ in range(95):
        recommender.ask(sample(0.1, 100.0))
    for _ in range(5):  # under a tenth of the samples
        said = recommender.ask(sample(1.0, 100.0))["c"]
    assert 0.1 * MARGIN <= said["cores"] <= 0.1 * MARGIN * BUCKETS + 0.01
    assert 100 * MARGIN <= said["mib"] <= 100 * MARGIN * BUCKETS + 10


def test_a_kill_raises_the_memory_target(recommender: Recommender) -> None:
    recommender.ask(sample(0.1, 100.0))
    said = recommender.ask(sample(0.1, 100.0, killed_at_mib=200.0))["c"]
    assert said["mib"] >= 1.2 * 200 * MARGIN


def test_each_container_has_a_target_of_its_own(recommender: Recommender) -> None:
    both = sample(0.1, 100.0) | {"d": {"cores": 0.5, "mib": 40.0, "killed_at_mib": 0.0}}
    said = recommender.ask(both)
    assert said["c"]["cores"] < said["d"]["cores"]
    assert said["c"]["mib"] > said["d"]["mib"]
