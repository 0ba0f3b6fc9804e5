"""What is asked of Prometheus, and what becomes of its answers: a number, or a reason, never a guessed 0."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

import pytest

from hpa_replacement.observe.monitor import MetricsRequest, Reading, read
from hpa_replacement.observe.presets import CPU, PRESETS
from surgekit.prometheus.client import Labels, NoAnswer, QueryBatch, QueryFailed

WINDOW_S, SCRAPE_S = 30.0, 5.0


def labels(**named: str) -> Labels:
    return frozenset(named.items())


def text(query: str, window: str = "30000ms") -> str:
    return Template(query).safe_substitute(window=window)


class FakePrometheus:
    """Answers by the text of a query; what is not there has no series."""

    def __init__(self) -> None:
        self.answers: dict[str, Mapping[Labels, float] | QueryFailed] = {}
        self.asked: list[str] = []

    def values(self, query: str, at_s: float) -> Mapping[Labels, float]:
        self.asked.append(query)
        answer = self.answers.get(query, {})
        if isinstance(answer, QueryFailed):
            raise answer
        return answer

    def serve(self, *functions: str, preset: str = "openfaas", window: str = "30000ms") -> None:
        """Each has 10 requests a second of 0.5 s, and one that fails."""
        of = PRESETS[preset]
        keys = [frozenset(of.key("shop", function).items()) for function in functions]
        for query, value in ((of.throughput, 10.0), (of.errors, 1.0), (of.latency, 0.5), (of.samples, 6.0)):
            self.answers[text(query, window)] = dict.fromkeys(keys, value)


def request_for(name: str = "web", **changed: object) -> MetricsRequest:
    facts: dict[str, object] = {
        "name": f"shop/{name}", "namespace": "shop", "function": name, "target": name, "window_s": WINDOW_S,
        "pods": frozenset({f"{name}-0", f"{name}-1"}), "preset": "openfaas", "cpu": False,
    }  # fmt: skip
    return MetricsRequest(**facts | changed)  # type: ignore[arg-type]


@pytest.fixture
def prometheus() -> FakePrometheus:
    fake = FakePrometheus()
    fake.serve("web")
    return fake


def one(prometheus: FakePrometheus, **changed: object) -> Reading | str:
    return read(QueryBatch(prometheus, 1000.0), [request_for(**changed)], SCRAPE_S)["shop/web"]  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_reading(prometheus: FakePrometheus, preset: str) -> None:
    prometheus.serve("web", preset=preset)
    assert one(prometheus, preset=preset) == Reading(10.0, 1.0, 0.5, None)


def test_a_thousand_functions_cost_as_many_queries_as_one() -> None:
    prometheus = FakePrometheus()
    names = [f"f{i}" for i in range(1000)]
    prometheus.serve(*names)
    pods = {labels(namespace="shop", pod=f"{n}-{i}"): 0.1 for n in names for i in (0, 1)}
    prometheus.answers[text(CPU)] = pods
    found = read(QueryBatch(prometheus, 1000.0), [request_for(n, cpu=True) for n in names], SCRAPE_S)
    assert list(found.values()) == [Reading(10.0, 1.0, 0.5, 0.2)] * 1000
    for_all = len(prometheus.asked)
    prometheus.asked.clear()
    read(QueryBatch(prometheus, 1000.0), [request_for("f0", cpu=True)], SCRAPE_S)
    assert len(prometheus.asked) == for_all == 5


def test_each_length_of_window_has_its_own_queries(prometheus: FakePrometheus) -> None:
    prometheus.serve("other", window="18000ms")
    found = read(
        QueryBatch(prometheus, 1000.0), [request_for(), request_for("other", window_s=18.0)], SCRAPE_S
    )
    assert found == dict.fromkeys(("shop/web", "shop/other"), Reading(10.0, 1.0, 0.5, None))


def test_counters_that_stand_still_are_no_requests(prometheus: FakePrometheus) -> None:
    openfaas, key = PRESETS["openfaas"], labels(function_name="web.shop")
    prometheus.answers[text(openfaas.throughput)] = prometheus.answers[text(openfaas.errors)] = {key: 0.0}
    del prometheus.answers[text(openfaas.latency)]  # 0 / 0
    assert one(prometheus) == Reading(0.0, 0.0, None, None)


@pytest.mark.parametrize("what", ["throughput", "errors", "latency"])
def test_a_series_that_is_missing_or_nan_is_a_reason(prometheus: FakePrometheus, what: str) -> None:
    """NaN never gets here: Prometheus.values leaves it out."""
    del prometheus.answers[text(getattr(PRESETS["openfaas"], what))]
    assert one(prometheus) == f'no {what} of {{function_name="web.shop"}} in the last 30 s'


@pytest.mark.parametrize(("scrapes", "enough"), [(6.0, True), (5.0, True), (4.0, False), (1.0, False)])
def test_an_interval_covered_in_part_is_a_reason(
    prometheus: FakePrometheus, scrapes: float, enough: bool
) -> None:
    """A target that stopped answering, or one that is new, has fewer scrapes than its interval should."""
    prometheus.answers[text(PRESETS["openfaas"].samples)] = {labels(function_name="web.shop"): scrapes}
    found = one(prometheus)
    if enough:
        assert isinstance(found, Reading)
    else:
        assert found == f"{scrapes:.0f} of about 6 scrapes in the last 30 s"


def test_one_function_without_metrics_does_not_hold_up_the_others(prometheus: FakePrometheus) -> None:
    found = read(QueryBatch(prometheus, 1000.0), [request_for("new"), request_for()], SCRAPE_S)
    assert isinstance(found["shop/new"], str)
    assert isinstance(found["shop/web"], Reading)


OWN = {
    "throughput": 'a{f="$function"}',
    "errors": 'b{ns="$namespace"}',
    "latency": "c[$window]",
    "cpu": 'sum(d{t="$target"})',
}


def own_answers(prometheus: FakePrometheus) -> None:
    prometheus.answers = {
        'a{f="web",namespace="shop"}': {labels(x="1"): 7.0},
        'b{namespace="shop",ns="shop"}': {labels(): 0.0},
        'c{namespace="shop"}[30s]': {labels(): 0.25},
        'sum(d{namespace="shop",t="web"})': {labels(): 0.4},
    }


def test_own_queries_have_their_names_filled_in(prometheus: FakePrometheus) -> None:
    own_answers(prometheus)
    assert one(prometheus, queries=OWN, cpu=True) == Reading(7.0, 0.0, 0.25, 0.4)


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("what", sorted(OWN))
def test_own_queries_must_give_one_series(prometheus: FakePrometheus, what: str, count: int) -> None:
    own_answers(prometheus)
    query = list(prometheus.answers)[list(OWN).index(what)]
    prometheus.answers[query] = {labels(x=str(i)): 1.0 for i in range(count)}
    found = one(prometheus, queries=OWN, cpu=True)
    assert found == f"metrics.queries.{what} gives {count} series with a value, not one"


def test_a_query_that_fails_is_a_reason_for_those_who_asked_it(prometheus: FakePrometheus) -> None:
    query = 'sum(x{namespace="shop"})'
    prometheus.answers[query] = QueryFailed("Prometheus refused it: too many samples")
    bad = [request_for(f"bad{i}", queries={"errors": "sum(x)"}) for i in range(3)]
    prometheus.serve("web", *(b.function for b in bad))
    found = read(QueryBatch(prometheus, 1000.0), [*bad, request_for()], SCRAPE_S)
    assert isinstance(found["shop/web"], Reading)
    assert {found[b.name] for b in bad} == {"Prometheus refused it: too many samples"}
    assert prometheus.asked.count(query) == 1, "and it is not sent again"


def test_a_prometheus_that_does_not_answer_is_not_waited_for_a_thousand_times() -> None:
    prometheus = FakePrometheus()
    policies = [request_for(f"f{i}", queries={w: f"{w}_{i}" for w in OWN}) for i in range(1000)]
    queries = (f"{w}_{i}" for w in OWN for i in range(1000))
    prometheus.answers = {f'{query}{{namespace="shop"}}': NoAnswer("timed out") for query in queries}
    found = read(QueryBatch(prometheus, 1000.0), policies, SCRAPE_S)
    assert set(found.values()) == {"timed out"}
    assert len(prometheus.asked) == 3


def test_cpu_is_of_all_pods_or_not_at_all(prometheus: FakePrometheus) -> None:
    prometheus.answers[text(CPU)] = {labels(namespace="shop", pod="web-0"): 0.2}
    found = one(prometheus, cpu=True)
    assert found == "no CPU usage of 1 of 2 pods, web-1 among them"
    prometheus.answers[text(CPU)] = {
        labels(namespace="shop", pod="web-0"): 0.2,
        labels(namespace="shop", pod="web-1"): 0.1,
        labels(namespace="shop", pod="other-0"): 5.0,
        labels(namespace="bank", pod="web-0"): 5.0,
    }
    found = one(prometheus, cpu=True)
    assert isinstance(found, Reading)
    assert found.cpu_cores == pytest.approx(0.3)
