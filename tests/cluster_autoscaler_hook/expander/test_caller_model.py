"""How true the model of the caller is: its own recorded counts, and its algorithm pod by pod."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.expander.caller_model import Overhead, estimate, offer
from cluster_autoscaler_hook.expander.lookahead import infer_overhead
from cluster_autoscaler_hook.expander.model import Demand, Kind, Template
from cluster_autoscaler_hook.expander.scale_up_request import ScaleUpRequest
from cluster_autoscaler_hook.solver.deadline import Deadline
from tests.cluster_autoscaler_hook.expander.builders import GIB, RECORDED, decoded, kind, prices, template

# The recorded cluster's: see recorded/ORIGIN.md.
DAEMONSETS = Overhead(cpu_millis=100)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_every_recorded_count_is_reproduced(file: Path) -> None:
    """Of 1.36.1: the nodes and the pods of each option."""
    recorded = decoded(file.read_bytes())
    ours = offer(list(recorded.templates.values()), recorded.kinds, recorded.pending, {}, DAEMONSETS)
    assert {o.group: (o.nodes, dict(o.pods)) for o in ours.options} == {
        o.group: (o.nodes, dict(o.pods)) for o in recorded.options
    }


def test_the_daemonsets_are_seen_in_the_counts() -> None:
    """The templates do not show them; without them the second request's counts would be others."""
    recorded = decoded(RECORDED[1].read_bytes())
    found = infer_overhead(ScaleUpRequest(recorded, prices(), Overhead(), Deadline.after(10)))
    assert found.cpu_millis > 0
    for option in recorded.options:
        node = found.off(recorded.templates[option.group])
        assert estimate(node, recorded.kinds, option.pods).nodes == option.nodes


def test_where_the_counts_do_not_tell_the_usual_daemonsets_are_assumed() -> None:
    """Two pods of 1 CPU fit a node of 4 with any of them. What an administrator says is believed."""
    asked = offer([template("g")], [kind(["g"], 1, 1)], [2], {})

    def inferred(configured: Overhead) -> Overhead:
        return infer_overhead(ScaleUpRequest(asked, prices(), configured, Deadline.after(10)))

    assert inferred(Overhead()) == Overhead(200, 200 << 20, 4)
    assert inferred(Overhead(pods=2)) == Overhead(pods=2)


@pytest.mark.parametrize("millis", [0, 50, 100, 300, 500])
def test_where_the_counts_tell_they_are_believed(millis: int) -> None:
    """Nodes that the pods fill to the last millicore with the true DaemonSets, and nodes that lack ten."""
    templates = [template("full", 4 + millis / 1000), template("lacks", 3.99 + millis / 1000)]
    asked = offer(templates, [kind(["full", "lacks"], 1, 1)], [40], {}, Overhead(millis))
    assert {o.group: o.nodes for o in asked.options} == {"full": 10, "lacks": 14}
    found = infer_overhead(ScaleUpRequest(asked, prices(), Overhead(), Deadline.after(10)))
    assert found.cpu_millis == millis


def pod_by_pod(
    template: Template, kinds: list[Kind], counts: list[int], max_nodes: int
) -> tuple[int, list[int]]:
    """BinpackingNodeEstimator as it is written: every pod looks at every node."""
    nodes: list[list[int]] = []  # free CPU, memory, places; then pods of each kind
    placed, last_index = [0] * len(kinds), 0

    def fits(node: list[int], k: int) -> bool:
        need = kinds[k].demand
        alone = need.alone and node[3 + k] > 0
        return need.cpu_millis <= node[0] and need.memory_bytes <= node[1] and node[2] >= 1 and not alone

    def put(node: list[int], k: int) -> None:
        node[0] -= kinds[k].demand.cpu_millis
        node[1] -= kinds[k].demand.memory_bytes
        node[2] -= 1
        node[3 + k] += 1
        placed[k] += 1

    def size(k: int) -> float:
        need = kinds[k].demand
        return need.cpu_millis / template.cpu_millis + need.memory_bytes / template.memory_bytes

    for k in sorted(range(len(kinds)), key=lambda k: (-size(k), k)):
        left = counts[k]
        while left:  # tryToScheduleOnExistingNodes
            order = [(last_index + i) % len(nodes) for i in range(len(nodes))]
            at = next((i for i in order if fits(nodes[i], k)), None)
            if at is None:
                break
            put(nodes[at], k)
            last_index, left = (at + 1) % len(nodes), left - 1
        while left:  # tryToScheduleOnNewNodes
            if not (nodes and fits(nodes[-1], k)):
                if len(nodes) >= max_nodes:
                    break
                fresh = [template.cpu_millis, template.memory_bytes, template.max_pods, *([0] * len(kinds))]
                if not fits(fresh, k):
                    break
                nodes.append(fresh)
            put(nodes[-1], k)
            left -= 1
    return len(nodes), placed


demands = st.builds(
    Demand,
    st.integers(0, 4000),
    st.integers(0, 16 * GIB),
    st.just(()),
    st.booleans(),
)


@given(
    st.lists(st.tuples(demands, st.integers(1, 30)), min_size=1, max_size=5),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_the_estimate_is_the_callers_algorithm(
    pods: list[tuple[Demand, int]], max_pods: int, max_nodes: int
) -> None:
    node = template("g", 4, 16, max_pods)
    kinds, counts = [Kind(d, frozenset({"g"})) for d, _ in pods], [n for _, n in pods]
    found = estimate(node, kinds, dict(enumerate(counts)), max_nodes)
    nodes, placed = pod_by_pod(node, kinds, counts, max_nodes)
    assert (found.nodes, [found.placed.get(i, 0) for i in range(len(kinds))]) == (nodes, placed)


def test_extended_resources_and_places_limit() -> None:
    gpu = Kind(Demand(100, GIB, (("nvidia.com/gpu", 1),)), frozenset({"g"}))
    node = Template("g", "g", 4000, 16 * GIB, 110, {"nvidia.com/gpu": 2})
    assert estimate(node, [gpu], {0: 5}).nodes == 3
    assert estimate(template("g"), [gpu], {0: 5}).nodes == 0
    assert estimate(template("g", pods=2), [kind(["g"], 0.1, 0.1)], {0: 5}).nodes == 3
