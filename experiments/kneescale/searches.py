"""The searches of the comparison by arm: KneeScale's own two, and the paper's baselines (section IV-C).

A baseline is played by the product's decision with its `next_step` injected: the paper gives each of its
searches the same Algorithm 2, so their variant is `paper`.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.kneescale import hill_climbing, random_search
from experiments.kneescale.plan import OURS
from hpa_replacement.decision.policy import Search
from hpa_replacement.search import Variant

__all__ = ["SEARCHES"]

SEARCHES: Mapping[str, Search] = {
    OURS: Search(Variant.BEST),
    "paper": Search(Variant.PAPER),
    "hill_climbing": Search(Variant.PAPER, next_step=hill_climbing.next_step),
    "random": Search(Variant.PAPER, next_step=random_search.next_step),
}
