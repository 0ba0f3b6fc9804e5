"""All nodes ordered by their cost for one kind of pod, updated as nodes change.

A scale-out places many pods of the same kind, and only one or two nodes change between two pods. So only
those are priced again. A request then walks the list from the cheapest node until it has found enough of the
nodes it offers.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from cluster_model.cost import PodPrices
from cluster_model.node_table import Node, NodeTable

__all__ = ["PodKind", "PriceList", "PriceLists", "cheapest", "pull_s"]

PodKind = tuple[PodPrices, tuple[str, ...]]  # prices and images
_Entry = tuple[float, float, str, Node]
_LISTS_KEPT = 64


def pull_s(node: Node, images: Sequence[str], nodes: NodeTable) -> float:
    """I_p on the node: the time to pull its missing images."""
    return sum(nodes.image_pull_s(image) for image in images if image not in node.images)


def _priced(node: Node, kind: PodKind, nodes: NodeTable) -> _Entry:
    prices, images = kind
    pulling_s = pull_s(node, images, nodes)
    cost = prices.cost(node.turn_s, pulling_s, node.cpu_free, node.memory_free)
    return cost, node.tie, node.name, node


def cheapest(kind: PodKind, offered: Iterable[Node], nodes: NodeTable, count: int) -> list[Node]:
    """Price every offered node. Faster than a list for a few nodes, and the oracle in tests."""
    return [entry[3] for entry in sorted(_priced(node, kind, nodes) for node in offered)[:count]]


class PriceList:
    def __init__(self, kind: PodKind, nodes: NodeTable) -> None:
        self._kind, self._nodes = kind, nodes
        self._pulls_s = self._image_pulls_s()
        self.changed: set[Node] = set()
        self._entries: list[_Entry] = []
        self._entry_of: dict[Node, _Entry] = {}
        self._price_all()

    def cheapest(self, offered: frozenset[str], count: int) -> list[Node]:
        """The cheapest nodes among those offered, cheapest first."""
        self.catch_up()
        found: list[Node] = []
        for _, _, name, node in self._entries:
            if name in offered:
                found.append(node)
                if len(found) == count:
                    break
        return found

    def catch_up(self) -> None:
        """Price the nodes again that changed."""
        if self._pulls_s != (pulls_s := self._image_pulls_s()):
            self._pulls_s = pulls_s
            self._price_all()
        elif len(self.changed) > 16 + len(self._entries) // 16:
            self._price_all()  # one sort is cheaper than this many moves
        else:
            for node in self.changed:
                self._move(node)
        self.changed.clear()

    def _move(self, node: Node) -> None:
        old = self._entry_of.pop(node, None)
        if old is not None:
            del self._entries[bisect_left(self._entries, old)]
        if self._nodes.get(node.name) is node:
            new = self._entry_of[node] = _priced(node, self._kind, self._nodes)
            insort(self._entries, new)

    def _price_all(self) -> None:
        self._entries = sorted(_priced(node, self._kind, self._nodes) for node in self._nodes)
        self._entry_of = {entry[3]: entry for entry in self._entries}

    def _image_pulls_s(self) -> list[float]:
        return [self._nodes.image_pull_s(image) for image in self._kind[1]]


class PriceLists:
    """Price lists of recent kinds of pod. A list is made when a kind is requested a second time."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._lists: OrderedDict[PodKind, PriceList | None] = OrderedDict()

    def of(self, kind: PodKind) -> PriceList | None:
        """The kind's list; None the first time, when pricing the offered nodes is cheaper."""
        if kind not in self._lists:
            self._lists[kind] = None
            if len(self._lists) > _LISTS_KEPT:
                self._drop(self._lists.popitem(last=False)[1])
            return None
        self._lists.move_to_end(kind)
        found = self._lists[kind]
        if found is None:
            found = self._lists[kind] = PriceList(kind, self._nodes)
            self._nodes.follow(found.changed)
        return found

    def catch_up(self) -> None:
        """Prepare the list that was used last: the next pod is mostly of the same kind."""
        if self._lists and (last := next(reversed(self._lists.values()))) is not None:
            last.catch_up()

    def _drop(self, dropped: PriceList | None) -> None:
        if dropped is not None:
            self._nodes.unfollow(dropped.changed)
