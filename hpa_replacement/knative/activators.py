"""Asks Knative's activators which revisions have requests there: how a revision without pods is woken.

An activator tells of its requests in two ways (serving v0.50.0): over a websocket to Knative's autoscaler,
which keeps that to itself, and in its own metrics. The metrics are read here at each activator, not from
Prometheus: a request would wait for the next scrape.
"""

from __future__ import annotations

import http.client
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from hpa_replacement.knative.presence import Demand
from surgekit.kube.checked import checked

__all__ = ["SERVICE", "Activators", "Address", "read_addresses", "read_requests"]

Json = dict[str, Any]
Name = tuple[str, str]
Address = tuple[str, int]
SERVICE = "activator-service"
_PORT_NAME, _PORT = "http-metrics", 9090
_METRICS = ("kn_revision_request_queued{", "kn_revision_request_active{")
_TIMEOUT_S = 1.0
_LARGEST_PAGE = 16 * 2**20
_AT_ONCE = 8
_ADVICE = "Knative's ConfigMap config-observability must have `metrics-protocol: prometheus`"


@dataclass(slots=True)
class _Answer:
    """What one activator said last."""

    since_s: float  # when it was read, or when it became known to us
    read: bool = False
    requests: Mapping[Name, int] = field(default_factory=dict)
    problem: str = ""


class Activators:
    """The requests in all activators, as of the last `ask`. Times are of a monotonic clock."""

    def __init__(self) -> None:
        self._answers: dict[Address, _Answer] = {}
        self._last_any_s = -math.inf
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="activators")

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def forget(self) -> None:
        """Nobody asked for a while: answers begin to age with the next `ask`."""
        self._answers.clear()
        self._last_any_s = -math.inf

    def ask(self, addresses: Iterable[Address], now_s: float) -> None:
        there = sorted(set(addresses))
        if there or self._last_any_s == -math.inf:
            self._last_any_s = now_s
        self._answers = {address: self._answers.get(address) or _Answer(now_s) for address in there}
        for address, found in zip(there, self._pool.map(_requests_at, there), strict=True):
            answer = self._answers[address]
            if isinstance(found, str):
                answer.problem = f"{found}; {_ADVICE}"
            else:
                self._answers[address] = _Answer(now_s, True, found)

    def demand(self, revision: Name, now_s: float) -> Demand:
        if not self._answers:
            return Demand(0, math.inf, now_s - self._last_any_s, f"{SERVICE} has no address")
        requests = sum(answer.requests.get(revision, 0) for answer in self._answers.values())
        oldest = min(self._answers.values(), key=lambda answer: answer.since_s)
        unread = next((answer for answer in self._answers.values() if not answer.read), None)
        blind_s = now_s - oldest.since_s
        if unread:
            return Demand(requests, math.inf, blind_s, unread.problem)
        return Demand(requests, blind_s, blind_s, oldest.problem)


def _requests_at(address: Address) -> Mapping[Name, int] | str:
    """A text says why it cannot be read."""
    host, port = address
    shown = f"activator {host}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics", headers={"Accept": "text/plain; version=0.0.4"})
        answer = connection.getresponse()
        page = answer.read(_LARGEST_PAGE)
    except (OSError, http.client.HTTPException) as error:
        return f"{shown}: {error or type(error).__name__}"
    finally:
        connection.close()
    if answer.status != http.client.OK:
        return f"{shown}: HTTP {answer.status}"
    try:
        return read_requests(page.decode())
    except ValueError as error:
        return f"{shown}: {error}"


def read_requests(page: str) -> Mapping[Name, int]:
    """Requests of each revision that wait in this activator or are on their way through it."""
    found: Counter[Name] = Counter()
    lines = [line for line in page.splitlines() if line.startswith(_METRICS)]  # most are histograms
    for family in text_string_to_metric_families("\n".join([*lines, ""])):
        for sample in family.samples:
            name = sample.labels.get("k8s_namespace_name"), sample.labels.get("kn_revision_name")
            if name[0] and name[1] and sample.value >= 1:  # NaN is not
                found[name[0], name[1]] += int(min(sample.value, 1e9))
    return found


@checked
def read_addresses(slice_: Json) -> frozenset[tuple[str, int]]:
    """Where the activators of one EndpointSlice serve their metrics."""
    ports: defaultdict[str, int] = defaultdict(lambda: _PORT)
    ports |= {port.get("name") or "": port["port"] for port in slice_.get("ports") or () if port.get("port")}
    return frozenset(
        (str(ip_address(address)), ports[_PORT_NAME])
        for endpoint in slice_.get("endpoints") or ()
        # null is unknown, and is to be taken for ready
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint["addresses"]
    )
