"""A request's bytes as an `Offer`.

A large request is the same pods repeated in every option (128 MiB are 1,000 pods in 40 options), and they
come from a handful of deployments. So each distinct byte string is parsed once; and of pods that differ only
in what no plan looks at (names, volumes, images) one is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from cluster_autoscaler_hook.deadline import Deadline
from cluster_autoscaler_hook.expander import wire
from cluster_autoscaler_hook.expander.model import Demand, Kind, Offer, Option, Template
from cluster_autoscaler_hook.expander.pod_demand import amounts, demand
from surgekit.quantity import QuantityError

__all__ = ["DecodeTimeout", "RequestError", "Undecoded", "decode", "first_look"]

# The newer label, then the one it replaced in Kubernetes 1.17.
_CLASS_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_DEFAULT_MAX_PODS = 110  # kubelet's maxPods
_CHECK_EVERY = 512


class RequestError(ValueError):
    """Bytes that are no request of Cluster Autoscaler; the message names the field."""


class DecodeTimeout(Exception):
    """The pods were not read in time; the options and their counts are known all the same."""


class Undecoded:
    """The options with their node counts and how many pods each helps: enough for the fallback."""

    def __init__(self, message: Any, templates: Mapping[str, Template], problems: tuple[str, ...]) -> None:
        self.message, self.templates, self.problems = message, templates, problems
        self.options = tuple(
            Option(o.nodeGroupId, o.nodeCount, {0: len(o.podBytes) or len(o.pod)}, str(o.debug))
            for o in message.options
        )


def first_look(body: bytes) -> Undecoded:
    try:
        return _first_look(wire.BestOptionsRequest.FromString(body))
    except DecodeError as error:
        raise RequestError(f"not a BestOptionsRequest: {error}") from error


def _first_look(message: Any) -> Undecoded:
    for option in message.options:
        if not isinstance(option.nodeGroupId, str):  # text that is not UTF-8 comes as bytes
            raise RequestError(f"options.nodeGroupId: {option.nodeGroupId!r} is not text")
    # 1.34 sends both; the newer one wins.
    nodes = {entry.key: entry.value for field in (message.nodeMap, message.nodeBytesMap) for entry in field}
    templates, problems = {}, []
    for option in message.options:
        if (group := option.nodeGroupId) not in nodes:
            problems.append(f"{group}: no node of it in the request")
            continue
        try:
            templates[group] = _template(group, nodes[group])
        except (DecodeError, QuantityError) as error:
            problems.append(f"{group}: its node cannot be read: {error}")
    return Undecoded(message, templates, tuple(problems))


def decode(look: Undecoded, deadline: Deadline) -> Offer:
    """All of it. A pod that cannot be read is an error: a plan that silently leaves it out is wrong."""
    pods = _Pods(deadline)
    counts = [pods.count(option.podBytes or option.pod) for option in look.message.options]
    helped: list[set[str]] = [set() for _ in pods.demands]
    for option, of_option in zip(look.options, counts, strict=True):
        for identity in of_option:
            helped[identity].add(option.group)
    kinds: dict[Kind, int] = {}
    kind_of = [
        kinds.setdefault(Kind(of_pod, frozenset(groups)), len(kinds))
        for of_pod, groups in zip(pods.demands, helped, strict=True)
    ]
    pending = [0] * len(kinds)
    for identity, count in enumerate(pods.totals()):
        pending[kind_of[identity]] += count
    return Offer(
        tuple(
            Option(option.group, option.nodes, _by_kind(of_option, kind_of), option.debug)
            for option, of_option in zip(look.options, counts, strict=True)
        ),
        look.templates,
        tuple(kinds),
        tuple(pending),
    )


class _Pods:
    """Every distinct pod seen, as the index of what it demands."""

    def __init__(self, deadline: Deadline) -> None:
        self.demands: list[Demand] = []
        # By the hash of a pod's bytes: keeping 128 MiB of them takes a fifth of the time. It has 64 bits,
        # keyed at random in each process (PEP 456): two of 10^5 pods meet once in 10^9 requests.
        self._identity_of: dict[int, int] = {}
        self._identities: dict[bytes, int] = {}  # the bytes of what matters of it
        self._deadline = deadline

    def count(self, bodies: Any) -> Counter[int]:
        counted: Counter[int] = Counter()
        known = self._identity_of
        for i, body in enumerate(bodies):
            identity = known.get(key := hash(body))
            if identity is None:
                identity = known[key] = self._identify(body)
            counted[identity] += 1
            if i % _CHECK_EVERY == 0 and self._deadline.reached():
                raise DecodeTimeout(f"the deadline came after {len(known):,} distinct pods were read")
        return counted

    def totals(self) -> list[int]:
        counted = Counter(self._identity_of.values())
        return [counted[identity] for identity in range(len(self.demands))]

    def _identify(self, body: bytes) -> int:
        try:
            pod = wire.Pod.FromString(body)
        except DecodeError as error:
            raise RequestError(f"options.podBytes: not a v1.Pod: {error}") from error
        if not pod.spec.HasField("affinity"):
            pod.ClearField("metadata")  # labels matter only to what selects them
        pod.DiscardUnknownFields()
        essence = pod.SerializeToString()
        identity = self._identities.get(essence)
        if identity is None:
            identity = self._identities[essence] = len(self.demands)
            try:
                self.demands.append(demand(pod))
            except QuantityError as error:
                raise RequestError(f"options.podBytes: requests.{error}") from error
        return identity


def _by_kind(counts: Counter[int], kind_of: list[int]) -> dict[int, int]:
    found: Counter[int] = Counter()
    for identity, count in counts.items():
        found[kind_of[identity]] += count
    return dict(found)


def _template(group: str, body: bytes) -> Template:
    node = wire.Node.FromString(body)
    capacity = amounts(node.status.capacity)
    allocatable = capacity | amounts(node.status.allocatable)
    # A label says more than an annotation of the same name: it is what selectors see.
    labels = {t.key: t.value for field in (node.metadata.annotations, node.metadata.labels) for t in field}
    return Template(
        group,
        next((labels[label] for label in _CLASS_LABELS if labels.get(label)), ""),
        allocatable.pop("cpu", 0),
        allocatable.pop("memory", 0),
        allocatable.pop("pods", _DEFAULT_MAX_PODS),
        allocatable,
        capacity.get("cpu", 0),
        capacity.get("memory", 0),
        labels,
    )
