"""What the watches saw, as one snapshot and the changes since. Pure: times are arguments.

One thread calls it. `change` makes the rows of the objects that were touched since the last call, and tells
which of them look different now; `snapshot` is what all changes so far have led to.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Set
from statistics import median
from typing import Any, TypeVar

from cluster_view.decision_log import DecisionLog
from cluster_view.decisions import placement_told, placement_why, speed_told
from cluster_view.facts import FunctionFacts, NodeFacts, PlanFacts, PodFacts, SpeedFacts, Told
from cluster_view.lives import Lives
from cluster_view.membership import Membership
from cluster_view.model import Change, Difference, Function, Head, Node, Pod, Snapshot
from cluster_view.placements import Placements
from cluster_view.rows import Price, function_row, node_row, pod_row, price_of_pod
from cluster_view.shadow import placement_difference
from cluster_view.text import iso

__all__ = ["State"]

Json = dict[str, Any]
Row = TypeVar("Row", Node, Pod, Function)
_SPEED_MOVES = 0.05  # the median may move by this share before all nodes are shown anew
_MOST_SAID, _MOST_CLAIMS = 4, 5_000
_MOST_CLASSES = 2_000


class State:
    def __init__(self, cluster: str, catalogue: Mapping[str, float]) -> None:
        """`catalogue`: dollars an hour, by instance type."""
        self._cluster, self._catalogue = cluster, catalogue
        self._nodes: dict[str, NodeFacts] = {}
        self._pods: dict[str, PodFacts] = {}
        self._lives = Lives()
        self._placements = Placements()
        self._speeds: dict[str, SpeedFacts] = {}
        self._functions: dict[str, FunctionFacts] = {}
        self._plans: dict[str, PlanFacts] = {}
        self._membership = Membership()
        # What NodePlans said; a plan is forgotten with the next one, its nodes are not.
        self._class_prices: OrderedDict[str, float] = OrderedDict()
        self._claims: OrderedDict[str, str] = OrderedDict()
        self._said: dict[str, deque[str]] = {}  # by pod
        self._log = DecisionLog()
        self._median_s: float | None = None
        self.requests_per_s: float | None = None
        # Keys of what was touched, and the rows as shown.
        self._touched_nodes: set[str] = set()
        self._touched_pods: set[str] = set()
        self._touched_functions: set[str] = set()
        self._node_rows: dict[str, Node] = {}
        self._pod_rows: dict[str, Pod] = {}
        self._function_rows: dict[str, Function] = {}
        self._head: Head = self._new_head(0.0)

    # --- nodes and their speeds ---

    def put_node(self, node: NodeFacts) -> None:
        self._nodes[node.name] = node
        self._touched_nodes.add(node.name)

    def drop_node(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._touched_nodes.add(name)

    def keep_nodes(self, names: Set[str]) -> None:
        _drop_others(self._nodes, names, self.drop_node)

    def put_speed(self, speed: SpeedFacts, at_s: float) -> None:
        told = speed_told(self._speeds.get(speed.node), speed)
        self._speeds[speed.node] = speed
        self._touched_nodes.add(speed.node)
        if told:
            self._log.add(told, "", at_s)

    def drop_speed(self, node: str) -> None:
        self._speeds.pop(node, None)
        self._touched_nodes.add(node)

    def keep_speeds(self, nodes: Set[str]) -> None:
        _drop_others(self._speeds, nodes, self.drop_speed)

    # --- pods ---

    def put_pod(self, pod: PodFacts, at_s: float) -> None:
        before = self._pods.get(pod.key)
        self._pods[pod.key] = pod
        self._membership.put_pod(pod)
        self._lives.see(pod, at_s, counts=self._membership.function_of(pod) is not None)
        self._touch_pod(pod)
        if before is not None and (before.node, before.workload) != (pod.node, pod.workload):
            self._touch_pod(before)

    def drop_pod(self, key: str) -> None:
        if (pod := self._pods.pop(key, None)) is not None:
            self._membership.drop_pod(pod)
            self._touch_pod(pod)
        self._lives.end(key)
        self._said.pop(key, None)

    def keep_pods(self, keys: Set[str]) -> None:
        _drop_others(self._pods, keys, self.drop_pod)

    def _touch_pod(self, pod: PodFacts) -> None:
        self._touched_pods.add(pod.key)
        self._touched_functions |= self._membership.functions_on(pod.workload)
        if pod.node:
            self._touched_nodes.add(pod.node)

    def _say_of_pod(self, key: str, sentences: Iterable[str]) -> None:
        if key in self._pods:
            self._said.setdefault(key, deque(maxlen=_MOST_SAID)).extend(sentences)
            self._touched_pods.add(key)

    # --- functions and plans ---

    def put_function(self, function: FunctionFacts, at_s: float) -> None:
        before = self._functions.get(function.key)
        self._functions[function.key] = function
        self._log.begin(function.key)
        self._touched_functions.add(function.key)
        self._touched_pods |= self._membership.put_function(function)
        told = function.told
        if told and (before is None or before.told is None or before.told.mark != told.mark):
            self._log.add(told, function.mode, at_s, self._difference(function, told))

    def drop_function(self, key: str) -> None:
        if (function := self._functions.pop(key, None)) is not None:
            self._touched_pods |= self._membership.drop_function(function)
        self._log.end(key)
        self._touched_functions.add(key)

    def keep_functions(self, kind: str, keys: Set[str]) -> None:
        gone = [key for key, of in self._functions.items() if of.kind == kind and key not in keys]
        for key in gone:
            self.drop_function(key)

    def _difference(self, function: FunctionFacts, told: Told) -> Difference | None:
        """In dollars: what the replicas that it wants more, or less, cost where the present ones run."""
        if told.replicas_more is None:
            return None
        pods = (self._pods[key] for key in self._membership.pods_on(function.workload))
        prices = [
            price_of_pod(pod, node, price)
            for pod in pods
            if (node := self._nodes.get(pod.node)) and (price := self._price(node))
        ]
        if not told.replicas_more:
            return {"seconds": None, "usd_per_hour": 0.0}
        dollars = told.replicas_more * sum(prices) / len(prices) if prices else None
        return {"seconds": None, "usd_per_hour": dollars}

    def put_plan(self, plan: PlanFacts, at_s: float) -> None:
        before = self._plans.get(plan.name)
        self._plans[plan.name] = plan
        _remember(self._class_prices, plan.price_of_class, _MOST_CLASSES)
        _remember(self._claims, plan.why_of_claim, _MOST_CLAIMS)
        self._touched_nodes.update(self._nodes)
        if (told := plan.told) and (before is None or before.told is None or before.told.mark != told.mark):
            self._log.add(told, told.mode, at_s)

    def drop_plan(self, name: str) -> None:
        self._plans.pop(name, None)

    def keep_plans(self, names: Set[str]) -> None:
        _drop_others(self._plans, names, self.drop_plan)

    # --- what parts say ---

    def put_event(self, told: Told, at_s: float) -> None:
        about = told.about
        function = self._functions.get(f"{about['kind']}/{about['namespace']}/{about['name']}")
        self._log.add(told, function.mode if function else told.mode, at_s)
        if function:
            self._touched_functions.add(function.key)
        if about["kind"] == "Pod":
            self._say_of_pod(f"{about['namespace']}/{about['name']}", [told.sentence])

    def put_placement(self, said: Json, at_s: float) -> None:
        """The extender's decision about one pod. See `Placements.put`."""
        self._placements.put(said, at_s)

    def _tell_placement(self, key: str, said: Json, at_s: float) -> None:
        told, chosen = placement_told(said), str(said["bound_to"])
        creating = self._node_rows[chosen]["creating"] if chosen in self._node_rows else 0
        self._say_of_pod(key, placement_why(said))
        differs = placement_difference(said, self._speeds.get(chosen), creating)
        self._log.add(told, told.mode, at_s, differs)

    def _node_of(self, pod: str) -> str:
        facts = self._pods.get(pod)
        return facts.node if facts else ""

    # --- what is shown ---

    def change(self, at_s: float) -> Change | None:
        """What looks different since the last call; None: nothing."""
        for pod, said in self._placements.due(at_s, self._node_of):
            self._tell_placement(pod, said, at_s)
        self._follow_speeds()
        nodes = self._changed(self._touched_nodes, self._node_rows, lambda key: self._node_row(key, at_s))
        pods = self._changed(self._touched_pods, self._pod_rows, self._pod_row)
        decisions = self._log.take()
        self._touched_functions |= {
            f"{d['object']['kind']}/{d['object']['namespace']}/{d['object']['name']}" for d in decisions
        } & self._functions.keys()
        functions = self._changed(self._touched_functions, self._function_rows, self._function_row)
        head = self._new_head(at_s)
        if head == self._head and not (nodes or pods or functions or decisions):
            return None
        self._head = head
        return {
            "at": iso(at_s),
            "head": head,
            "nodes": nodes,
            "pods": pods,
            "functions": functions,
            "decisions": decisions,
        }

    def snapshot(self, at_s: float) -> Snapshot:
        """All that `change` has told so far."""
        return {
            "at": iso(at_s),
            "cluster": self._cluster,
            "head": self._head,
            "nodes": dict(self._node_rows),
            "pods": dict(self._pod_rows),
            "functions": dict(self._function_rows),
            "decisions": list(self._log.latest()),
        }

    @staticmethod
    def _changed(
        touched: set[str], shown: dict[str, Row], make: Callable[[str], Row | None]
    ) -> dict[str, Row | None]:
        changed: dict[str, Row | None] = {}
        for key in touched:
            row = make(key)
            if row is None:
                if shown.pop(key, None) is not None:
                    changed[key] = None
            elif shown.get(key) != row:
                shown[key] = changed[key] = row
        touched.clear()
        return changed

    def _node_row(self, name: str, at_s: float) -> Node | None:
        if (node := self._nodes.get(name)) is None:
            return None
        pods = [self._pods[key] for key in self._membership.pods_at(name)]
        claim = self._claims.get(node.claim, "") if node.claim else ""
        row = node_row(node, pods, self._speeds.get(name), self._median_s, self._price(node), claim, at_s)
        shown = self._node_rows.get(name)
        if shown is not None and shown == row | {"speed_age_s": shown["speed_age_s"]}:
            return shown  # only the age of its speed moved on
        return row

    def _pod_row(self, key: str) -> Pod | None:
        if (pod := self._pods.get(key)) is None:
            return None
        return pod_row(
            pod, self._membership.function_of(pod), self._lives.ready_after_s(key), self._said.get(key, ())
        )

    def _function_row(self, key: str) -> Function | None:
        if (function := self._functions.get(key)) is None:
            return None
        pods = (self._pods[pod] for pod in self._membership.pods_on(function.workload))
        return function_row(function, pods, self._log.of(key))

    def _price(self, node: NodeFacts) -> Price | None:
        """As `surgekit explain nodes`: by the catalogue; where it has none, by a plan or a label."""
        type_ = node.instance_type or ""
        if (usd := self._catalogue.get(type_)) is not None:
            return Price(usd, "the catalogue")
        if (usd := self._class_prices.get(type_)) is not None:
            return Price(usd, "surgekit's plan")
        return None if node.price is None else Price(node.price, "its label")

    def _follow_speeds(self) -> None:
        speeds = [of.creation_s for name, of in self._speeds.items() if name in self._nodes]
        now_s = median(speeds) if speeds else None
        before_s = self._median_s
        if now_s is None or before_s is None:
            moved = now_s is not before_s
        else:
            moved = abs(now_s - before_s) > _SPEED_MOVES * before_s
        if moved:
            self._median_s = now_s
            self._touched_nodes.update(self._nodes)

    def _new_head(self, at_s: float) -> Head:
        prices = [usd for row in self._node_rows.values() if (usd := row["usd_per_hour"]) is not None]
        starts = self._lives.starts(at_s)
        return {
            "nodes": len(self._node_rows),
            "pods": len(self._pod_rows),
            "usd_per_hour": round(sum(prices), 6) if prices else None,
            "requests_per_s": self.requests_per_s,
            "cold_starts_last_minute": float(starts) if self._functions else None,
        }


def _drop_others(known: Mapping[str, object], keys: Set[str], drop: Callable[[str], None]) -> None:
    for gone in known.keys() - keys:
        drop(gone)


def _remember(known: OrderedDict[Any, Any], new: Mapping[Any, Any], most: int) -> None:
    """Keep the newest `most`."""
    for key, value in new.items():
        known.pop(key, None)
        known[key] = value
    while len(known) > most:
        known.popitem(last=False)
