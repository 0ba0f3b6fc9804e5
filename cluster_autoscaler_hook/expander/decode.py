"""Decodes the bytes of a request into an `Offer`.

A large request repeats the same pods in every option (128 MiB are 1,000 pods in 40 options), and these come
from a few deployments. So the request is not copied. Options with the same pods in the same order are read
once; otherwise each distinct byte string is parsed once. Pods that differ only in fields that no plan uses
(names, volumes, images) count as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from cluster_autoscaler_hook.expander import expander_pb2
from cluster_autoscaler_hook.expander.model import Demand, Kind, Offer, Option, Template
from cluster_autoscaler_hook.expander.pod_demand import amounts, demand
from cluster_autoscaler_hook.expander.scan import MalformedMessage, fields
from cluster_autoscaler_hook.solver.deadline import Deadline
from surgekit.kube.quantity import QuantityError

__all__ = ["DecodeTimeout", "RequestError", "Undecoded", "decode", "first_look"]

# The newer label, then the one it replaced in Kubernetes 1.17.
_CLASS_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_DEFAULT_MAX_PODS = 110  # kubelet's maxPods
_OPTIONS = expander_pb2.BestOptionsRequest.OPTIONS_FIELD_NUMBER
_POD, _POD_BYTES = expander_pb2.Option.POD_FIELD_NUMBER, expander_pb2.Option.PODBYTES_FIELD_NUMBER
_CHECK_EVERY = 512


class RequestError(ValueError):
    """The bytes are not a request of Cluster Autoscaler; the message names the field."""


class DecodeTimeout(Exception):
    """There was no time to read all pods. The options and their node counts are known anyway."""


@dataclass(frozen=True, slots=True)
class _Pods:
    """The positions of an option's pods in the request."""

    spans: tuple[tuple[int, int], ...]
    # The bytes from the first to the last pod, with tags; None if there are other fields in between.
    region: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Undecoded:
    """The options with node counts and numbers of pods: enough for the fallback."""

    body: bytes
    options: tuple[Option, ...]
    pods: tuple[_Pods, ...]  # one entry for each option
    templates: Mapping[str, Template]
    problems: tuple[str, ...]


def first_look(body: bytes) -> Undecoded:
    try:
        return _first_look(body)
    except (DecodeError, MalformedMessage) as error:
        raise RequestError(f"not a BestOptionsRequest: {error}") from error


def _first_look(body: bytes) -> Undecoded:
    options, pods, rest = [], [], []
    regions: dict[tuple[int, int], _Pods] = {}
    for number, begin, start, end in fields(body, 0, len(body)):
        if number != _OPTIONS:
            rest.append(body[begin:end])
            continue
        head, of_option = _split(body, start, end, regions)
        option = expander_pb2.Option.FromString(head)
        group: object = option.nodeGroupId
        if not isinstance(group, str):  # protobuf returns bytes where a string is not UTF-8
            raise RequestError(f"options.nodeGroupId: {group!r} is not text")
        options.append(Option(group, option.nodeCount, {0: len(of_option.spans)}, str(option.debug)))
        pods.append(of_option)
    message = expander_pb2.BestOptionsRequest.FromString(b"".join(rest))
    # 1.34 sends both; the newer one wins.
    nodes = {entry.key: entry.value for field in (message.nodeMap, message.nodeBytesMap) for entry in field}
    templates, problems = {}, []
    for group in (option.group for option in options):
        if group not in nodes:
            problems.append(f"{group}: no node of it in the request")
            continue
        try:
            templates[group] = _template(group, nodes[group])
        except (DecodeError, QuantityError) as error:
            problems.append(f"{group}: its node cannot be read: {error}")
    return Undecoded(body, tuple(options), tuple(pods), templates, tuple(problems))


def _split(body: bytes, start: int, end: int, regions: dict[tuple[int, int], _Pods]) -> tuple[bytes, _Pods]:
    """Split an option into its own fields and its pods. `regions`: the pods of earlier options."""
    head: list[bytes] = []
    spans: dict[int, list[tuple[int, int]]] = {_POD: [], _POD_BYTES: []}
    first, together = start, True
    for number, begin, content, stop in fields(body, start, end):
        if number not in spans:
            head.append(body[begin:stop])
            together = together and not any(spans.values())
            continue
        if not any(spans.values()):
            first = begin
            # Most groups help the same pods, often in the same order: do not read them again.
            for (known, until), found in regions.items():
                same = until - known == end - begin
                if same and body.startswith(memoryview(body)[known:until], begin):
                    return b"".join(head), found
        spans[number].append((content, stop))
    # 1.34 sends both; the newer one wins.
    region = (first, end) if together and any(spans.values()) else None
    found = _Pods(tuple(spans[_POD_BYTES] or spans[_POD]), region)
    if region:
        regions[region] = found
    return b"".join(head), found


def decode(look: Undecoded, deadline: Deadline) -> Offer:
    """Read the whole request. A pod that cannot be read is an error: a plan without it would be wrong."""
    pods = _Identities(look.body, deadline)
    known: dict[int, Counter[int]] = {}  # options with the same pods share one entry
    for listed in look.pods:
        if id(listed) not in known:
            known[id(listed)] = pods.count(listed.spans)
    counts = [known[id(listed)] for listed in look.pods]
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


class _Identities:
    """Numbers every distinct demand, and finds the number of each pod."""

    def __init__(self, body: bytes, deadline: Deadline) -> None:
        self.demands: list[Demand] = []
        # By the hash of a pod's bytes: keeping the bytes takes a fifth of the time. The hash has 64 bits and
        # a random key in each process (PEP 456): 10^5 pods collide once in 10^9 requests.
        self._identity_of: dict[int, int] = {}
        self._identities: dict[bytes, int] = {}  # by the bytes of the fields that a plan uses
        self._body, self._deadline = body, deadline

    def count(self, spans: Sequence[tuple[int, int]]) -> Counter[int]:
        counted: Counter[int] = Counter()
        known = self._identity_of
        for i, (start, end) in enumerate(spans):
            pod = self._body[start:end]
            identity = known.get(key := hash(pod))
            if identity is None:
                identity = known[key] = self._identify(pod)
            counted[identity] += 1
            if i % _CHECK_EVERY == 0 and self._deadline.reached():
                raise DecodeTimeout(f"the deadline came after {len(known):,} distinct pods were read")
        return counted

    def totals(self) -> list[int]:
        counted = Counter(self._identity_of.values())
        return [counted[identity] for identity in range(len(self.demands))]

    def _identify(self, body: bytes) -> int:
        try:
            pod = expander_pb2.Pod.FromString(body)
        except DecodeError as error:
            raise RequestError(f"options.podBytes: not a v1.Pod: {error}") from error
        if not pod.spec.HasField("affinity"):
            pod.ClearField("metadata")  # labels matter only for affinity
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
    node = expander_pb2.Node.FromString(body)
    capacity = amounts(node.status.capacity)
    allocatable = capacity | amounts(node.status.allocatable)
    # A label wins over an annotation of the same name: selectors see labels.
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
