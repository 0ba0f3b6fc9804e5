"""Prometheus as it is asked here: one instant query, a value for each named series, or why not."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.auth import AuthBase
from urllib3 import Retry

from surgekit.process.settings import PrometheusSettings
from surgekit.prometheus.promql import PromqlError, confined

__all__ = ["Labels", "NoAnswer", "Prometheus", "Queries", "QueryBatch", "QueryFailed", "TimedOut", "duration"]

Labels = frozenset[tuple[str, str]]

# Queries of one batch without an answer, each of which waits for its timeout: then no more are sent. A batch
# is ours or one tenant's, so one tenant's slow queries silence nobody else.
_SILENCES = 3


class QueryFailed(Exception):
    """Prometheus refused the query, or did not answer; the message says which."""


class NoAnswer(QueryFailed):
    """Prometheus did not answer."""


class TimedOut(NoAnswer):
    """Prometheus was still at it when the time was up."""


class Queries(Protocol):
    def values(self, query: str, at_s: float) -> Mapping[Labels, float]: ...


class Prometheus:
    """Values are as they were at a moment given by us, so that all queries of a batch speak of one window."""

    @classmethod
    def connect(cls, settings: PrometheusSettings) -> Prometheus:
        return cls(
            settings.prometheus_url,
            settings.prometheus_timeout_s,
            settings.prometheus_ca,
            settings.prometheus_token,
        )

    def __init__(
        self, url: str, timeout_s: float, ca_file: Path | None = None, token_file: Path | None = None
    ) -> None:
        session = requests.Session()
        if ca_file:
            session.verify = str(ca_file)
        auth = _Bearer(token_file) if token_file else None
        # Not asked twice: the next batch comes soon enough, and this one must not wait for backoffs.
        self._connection = PrometheusConnect(url, session=session, auth=auth, retry=Retry(0, read=False))
        self._url, self._timeout_s = url, timeout_s

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        """Series with a finite value. Two series never share all their labels."""
        try:
            # Told to Prometheus, too: it would go on with what nobody waits for.
            params = {"time": f"{at_s:.3f}", "timeout": duration(self._timeout_s)}
            result = self._connection.custom_query(query, params=params, timeout=self._timeout_s)
        except requests.JSONDecodeError as error:
            raise QueryFailed(f"what answers at {self._url} is not Prometheus: {error}") from error
        except requests.Timeout as error:
            raise TimedOut(f"Prometheus at {self._url} does not answer: timed out") from error
        except (requests.RequestException, OSError) as error:  # OSError: the token or CA cannot be read
            raise NoAnswer(f"Prometheus at {self._url} does not answer: {_in_short(error)}") from error
        except (PrometheusApiClientException, KeyError, TypeError) as error:
            raise QueryFailed(f"Prometheus refused {query!r}: {error}") from error
        found: dict[Labels, float] = {}
        for series in result:
            if not isinstance(series, dict):  # a scalar: [time, value]
                raise QueryFailed(f"{query!r} gives a scalar or text, not series")
            if "value" not in series:
                raise QueryFailed(f"{query!r} gives ranges or histograms, not numbers")
            number = float(series["value"][1])
            if math.isfinite(number):
                found[frozenset(series["metric"].items())] = number
        return found


class QueryBatch:
    """Queries about one moment. Each is sent once, and its answer remembered, its failure too.

    `longest_s` is the time they may take together; `refused` says why none is sent. `confine`: whether a
    tenant's own query sees its namespace only.
    """

    def __init__(
        self,
        prometheus: Queries,
        at_s: float,
        longest_s: float = math.inf,
        confine: bool = True,
        refused: str = "",
    ) -> None:
        self._prometheus, self._at_s = prometheus, at_s
        self._longest_s, self._confine, self.refused = longest_s, confine, refused
        self._known: dict[str, Mapping[Labels, float] | QueryFailed] = {}
        self._silences: list[NoAnswer] = []
        self._spent_s = 0.0
        self.slow = False  # a query ran out of time, or all of them together did

    def own(self, query: str, namespace: str) -> Mapping[Labels, float]:
        """A query that a tenant wrote, put to the series of its namespace."""
        if self._confine and not self.refused:
            query = self._confined(query, namespace)
        return self.series(query)

    def series(self, query: str) -> Mapping[Labels, float]:
        if query not in self._known:
            self._known[query] = self._ask(query)
        answer = self._known[query]
        if isinstance(answer, QueryFailed):
            raise answer
        return answer

    def _ask(self, query: str) -> Mapping[Labels, float] | QueryFailed:
        if self.refused:
            return QueryFailed(self.refused)
        if len(self._silences) >= _SILENCES:
            return self._silences[-1]
        if late := self._time_is_up():
            return late
        began_s = time.monotonic()
        try:
            return self._prometheus.values(query, self._at_s)
        except NoAnswer as error:
            self._silences.append(error)
            self.slow |= isinstance(error, TimedOut)
            return error
        except QueryFailed as error:
            return error
        finally:
            self._spent_s += time.monotonic() - began_s

    def _confined(self, query: str, namespace: str) -> str:
        """Reading a query takes time, too: many of them as much as their tenant likes."""
        if late := self._time_is_up():
            raise late
        began_s = time.monotonic()
        try:
            return confined(query, namespace)
        except PromqlError as error:
            raise QueryFailed(f"own PromQL: {error}") from error
        finally:
            self._spent_s += time.monotonic() - began_s

    def _time_is_up(self) -> QueryFailed | None:
        if self._spent_s < self._longest_s:
            return None
        self.slow = True
        return QueryFailed(f"queries took {self._longest_s:g} s together, which is all they may take")


def duration(seconds: float) -> str:
    """As PromQL writes it."""
    return f"{round(seconds * 1000)}ms"


class _Bearer(AuthBase):
    """Read anew for each query: a service account's token is replaced every hour."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._file.read_text().strip()}"
        return request


def _in_short(error: Exception) -> str:
    """Without the addresses of objects that urllib3 names: a condition would change with each of them."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    text = str(reason or error)
    return text[max(text.rfind(">: "), text.rfind("): ")) + 3 :] if ">: " in text or "): " in text else text
