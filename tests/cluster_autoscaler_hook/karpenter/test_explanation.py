"""Why a plan is as it is."""

from __future__ import annotations

import pytest

from cluster_autoscaler_hook.karpenter.demand import understood_labels
from cluster_autoscaler_hook.karpenter.explanation import demand_of, explain, rented_for
from cluster_autoscaler_hook.karpenter.first_choice import FirstChoice
from cluster_autoscaler_hook.karpenter.model import Kind
from cluster_autoscaler_hook.karpenter.settings import Settings
from cluster_autoscaler_hook.karpenter.strict_catalogue import StrictCatalogue
from tests.cluster_autoscaler_hook.karpenter.builders import GIB, OFFERS, offer, pod, solve


def test_the_kind_that_forces_a_class_is_named_with_what_would_do_without() -> None:
    fat, thin = Kind(100, 20 * GIB), Kind(500, GIB)
    said = explain({fat: 1, thin: 2}, [offer("fat", 4, 32, 0.3), offer("small", 2, 4, 0.2)], solve)
    (node,) = said.nodes
    assert node.forced_by == {fat.id: "without it small at 0.2 would do"}
    assert node.loses == {fat.id: 1.0, thin.id: 1.0}
    assert said.cost_per_hour == 0.3


def test_pods_nothing_can_hold_are_said() -> None:
    said = explain({Kind(64000, GIB): 2}, OFFERS, solve)
    assert not said.nodes
    assert said.shortages[0].pods == 2


def test_what_runs_is_priced_by_node() -> None:
    catalogue, _ = StrictCatalogue(None).read()
    pods = [pod("a", nodeName="n1"), pod("b", nodeName="n1"), pod("c", nodeName="n2"), pod("d")]
    pods.append(pod("other", schedulingGates=[]))
    pods.append(pod("left", resourceClaims=[{"name": "gpu"}]))
    pods.append(pod("picky", nodeSelector={"disk": "ssd"}))
    demand = demand_of(pods, {}, understood_labels(catalogue, Settings()), frozenset({"amd64"}))
    assert (sum(demand.counts.values()), demand.running) == (4, 3)
    assert demand.left == {
        "resource claims (DRA)": 1,
        "it selects by the node label disk, which is not in the catalogue": 1,
    }
    nodes = [
        {"metadata": {"name": "n1", "labels": {"node.kubernetes.io/instance-type": "c5.large"}}},
        {"metadata": {"name": "n2", "labels": {}}},
        {"metadata": {"name": "n3", "labels": {"node.kubernetes.io/instance-type": "c5.large"}}},
    ]
    rented = rented_for(demand, nodes, catalogue)
    assert (rented.nodes, rented.cost_per_hour, rented.unpriced) == (2, 0.096, ("n2",))


@pytest.mark.parametrize(
    ("pod_says", "namespace_says", "counted"),
    [
        (None, "shadow", 1),
        (None, "enforce", 1),
        (None, "", 0),
        ("off", "shadow", 0),
        ("shadow", "", 1),
        ("enforce", "off", 1),
    ],
)
def test_the_pods_label_decides_and_without_one_its_namespaces(
    pod_says: str | None, namespace_says: str, counted: int
) -> None:
    asked = pod(schedulingGates=[], tolerations=[])
    if pod_says is not None:
        asked["metadata"]["labels"]["surgekit.dev/nodes"] = pod_says
    demand = demand_of([asked], {"default": namespace_says}, (), frozenset())
    assert sum(demand.counts.values()) == counted


def test_karpenters_first_choice_is_for_the_same_pods() -> None:
    """Not for those nothing can hold, which the plan leaves out as well."""
    said = explain({Kind(500, GIB): 4, Kind(64000, GIB): 2}, OFFERS, solve)
    assert said.karpenter_first_choice == FirstChoice(0.1, {"small": 1})
    assert explain({Kind(64000, GIB): 2}, OFFERS, solve).karpenter_first_choice == FirstChoice(0.0, {})
