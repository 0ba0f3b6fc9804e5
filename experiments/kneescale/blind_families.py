"""Score curves for judging a knee search, written on 2026-11-18 by a writer who had not seen the search.

Each family is a law or a mechanism by which the score of a function (throughput over latency) changes with
its replicas. Parameters are drawn over wide ranges; the unit of time is one service time of one replica. The
only condition on a drawn curve is that it has a visible knee, see `has_visible_knee`.
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator

LEAST_RISE = 0.08  # how far above its chord a curve must rise, both axes scaled to 0..1


@dataclass(frozen=True)
class BlindCurve:
    """One noise-free curve: its scores at 1, 2, ..., capacity replicas."""

    family: str
    capacity: int
    scores: tuple[float, ...]
    seed: int


def _log_uniform(rng: Rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _corner(rng: Rng, n: Floats) -> float:
    """Where a curve turns: a small function in a big cluster is as likely as one that fills it."""
    return _log_uniform(rng, 1.5, 0.9 * n.size)


def _smooth_min(a: Floats, b: Floats | float, sharpness: float) -> Floats:
    """The smaller of two positive curves, with a rounded corner; a greater sharpness rounds it less."""
    small, great = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(small * (1.0 + (small / great) ** sharpness) ** (-1.0 / sharpness))


def _score(rng: Rng, throughput: Floats) -> Floats:
    """The score of a throughput: over a constant latency, or over that of a fixed number of users.

    By Little's law, N users with think time Z see the latency N/X - Z, so that the score is X^2 / (N - Z X).
    The share who think at the greatest X is drawn; it is often zero, as with a plain load generator.
    """
    if rng.random() < 0.5:
        return throughput
    thinking = rng.uniform(0.0, 0.7) if rng.random() < 0.5 else 0.0
    x = throughput / throughput.max()
    return np.asarray(x**2 / (1.0 - thinking * x))


def _mmc_open(rng: Rng, n: Floats) -> Floats:
    """M/M/c with Poisson arrivals, watched for a finite window: too few servers still give a score."""
    load, window, other_latency = _corner(rng, n), _log_uniform(rng, 30, 3000), _log_uniform(rng, 0.02, 2)
    erlang_b, blocked = np.empty(n.size), 1.0
    for i, c in enumerate(n):
        blocked = load * blocked / (c + load * blocked)
        erlang_b[i] = blocked
    stable = n * erlang_b / (n - load * (1.0 - erlang_b)) / np.maximum(n - load, 1e-9)  # Erlang C
    critical = 4.0 / 3.0 * np.sqrt(window / (np.pi * load))  # mean wait of a reflected Brownian backlog
    wait = np.where(n > load, np.minimum(stable, critical), critical + window * (1.0 - n / load) / 2.0)
    return np.asarray(np.minimum(n, load) / (1.0 + other_latency + wait))


def _closed_users(rng: Rng, n: Floats) -> Floats:
    """A fixed number of users who think, then call one of c replicas (machine repair model, exact)."""
    think = _log_uniform(rng, 0.02, 2)
    users = max(2, round(_corner(rng, n) * (1.0 + think)))
    state = np.arange(users + 1.0)
    births = np.log((users - state[:-1]) / think)
    scores = np.empty(n.size)
    for i, c in enumerate(n):
        busy = np.minimum(state, c)
        logs = np.concatenate(([0.0], np.cumsum(births - np.log(busy[1:]))))
        weights = np.exp(logs - logs.max())
        throughput = float(weights @ busy / weights.sum())
        scores[i] = throughput / (users / throughput - think)
    return scores


def _goodput_timeouts(rng: Rng, n: Floats) -> Floats:
    """M/M/c with a bounded queue; answers after the timeout do not count, but replicas still work on them."""
    load, timeout = _corner(rng, n), _log_uniform(rng, 0.2, 5)
    queue = round(_log_uniform(rng, 0.2, 5) * load) + 2
    scores = np.empty(n.size)
    for i, c in enumerate(n):
        state = np.arange(int(c) + queue + 1.0)
        logs = np.concatenate(([0.0], np.cumsum(np.log(load / np.minimum(state[1:], c)))))
        weights = np.exp(logs - logs.max())
        seen = weights[:-1] / weights.sum()  # an arrival that finds the queue full is refused
        ahead = np.maximum(state[:-1] - c + 1.0, 0.0)
        z = np.where(ahead > 0, (timeout - ahead / c) * c / np.sqrt(np.maximum(ahead, 1.0)), np.inf)
        good = seen / (1.0 + np.exp(-np.clip(1.702 * z, -500, 500)))  # logistic for the normal distribution
        scores[i] = load * good.sum() ** 2 / max(good @ (1.0 + ahead / c), 1e-200)
    return scores


def _usl(n: Floats, contention: float, peak: float) -> Floats:
    """Gunther's Universal Scalability Law; the coherency term follows from where the peak is."""
    return np.asarray(n / (1.0 + contention * (n - 1.0) + (1.0 - contention) / peak**2 * n * (n - 1.0)))


def _usl_rising(rng: Rng, n: Floats) -> Floats:
    return _score(rng, _usl(n, _log_uniform(rng, 1e-3, 0.3), n.size * _log_uniform(rng, 1, 5)))


def _usl_retrograde(rng: Rng, n: Floats) -> Floats:
    return _score(rng, _usl(n, _log_uniform(rng, 1e-3, 0.3), max(2.0, n.size * _log_uniform(rng, 0.05, 0.9))))


def _amdahl(rng: Rng, n: Floats) -> Floats:
    serial = _log_uniform(rng, 1e-3, 0.3)
    return _score(rng, np.asarray(1.0 / (serial + (1.0 - serial) / n)))


def _gustafson_capped(rng: Rng, n: Floats) -> Floats:
    """Scaled speedup until there is no more work to hand out."""
    serial, cap = rng.uniform(0.0, 0.6), _corner(rng, n)
    m = np.minimum(n, cap)
    return _score(rng, np.asarray(m - serial * (m - 1.0)))


def _staircase(rng: Rng, n: Floats) -> Floats:
    """Replicas help only by whole nodes or shards of k; a started group may help a little."""
    k = round(_log_uniform(rng, 2, max(2.4, n.size / 4)))
    leak = rng.uniform(0.0, 0.2) if rng.random() < 0.5 else 0.0
    useful = np.maximum(1.0, k * np.floor(n / k) + leak * (n % k))
    if rng.random() < 0.5:
        return _score(rng, _smooth_min(useful, _corner(rng, n), rng.uniform(2, 20)))
    return _score(rng, np.asarray(useful / (1.0 + useful / _corner(rng, n))))


def _consumer_group(rng: Rng, n: Floats) -> Floats:
    """Consumers of a log with P equal partitions: the consumer with the most partitions sets the pace."""
    partitions = max(2, round(_corner(rng, n)))
    return _score(rng, np.asarray(partitions / np.ceil(partitions / n)))


def _sigmoid(rng: Rng, n: Floats) -> Floats:
    """Slow start, growth, flat: logistic, Hill or Gompertz, over a floor."""
    middle, floor, kind = _corner(rng, n), rng.uniform(0.0, 0.2), rng.integers(3)
    if kind == 0:
        rise = 1.0 / (1.0 + np.exp(-np.clip((n - middle) / (middle * rng.uniform(0.05, 0.4)), -500, 500)))
    elif kind == 1:
        rise = 1.0 / (1.0 + (middle / n) ** rng.uniform(1.5, 6))
    else:
        rise = np.exp(-np.exp(np.clip((middle - n) / (middle * rng.uniform(0.1, 0.6)), -500, 500)))
    return np.asarray(floor + rise)


def _cliff(rng: Rng, n: Floats) -> Floats:
    """Nearly flat until the working set fits, or a quorum is there; then a jump, then nearly flat."""
    edge, before, slope = _corner(rng, n), _log_uniform(rng, 0.01, 0.4), rng.uniform(0.0, 0.1)
    width = max(0.05, edge * rng.uniform(0.0, 0.06))
    jump = 1.0 / (1.0 + np.exp(-np.clip((n - edge) / width, -500, 500)))
    return np.asarray(before + (1.0 - before) * jump + slope * n / n.size)


def _shared_database(rng: Rng, n: Floats) -> Floats:
    """Linear until a shared database or disk is full, with a corner anywhere from round to sharp."""
    return _score(rng, _smooth_min(n, _corner(rng, n), _log_uniform(rng, 1.5, 30)))


def _convex_concave(rng: Rng, n: Floats) -> Floats:
    """More than linear (more nodes hold more of the data in memory), then saturating; smooth in between."""
    meet, power, more = _corner(rng, n), rng.uniform(1.1, 2.5), _log_uniform(rng, 0.1, 3)
    after = 1.0 + more * (1.0 - np.exp(-np.maximum(n - meet, 0.0) * power / (meet * more)))
    return np.asarray(np.where(n < meet, (n / meet) ** power, after))


def _log_growth(rng: Rng, n: Floats) -> Floats:
    """Ever smaller gains without a limit: a logarithm or a root."""
    if rng.random() < 0.5:
        return np.asarray(np.log1p(n / _log_uniform(rng, 0.3, n.size / 3)))
    return np.asarray(n ** rng.uniform(0.15, 0.8))


def _cpu_then_network(rng: Rng, n: Floats) -> Floats:
    """Bound by processors, then, at a lower slope, by the network, which may fill up in the end."""
    first, slope = _corner(rng, n), rng.uniform(0.05, 0.5)
    second = np.asarray(first + slope * np.maximum(n - first, 0.0))
    throughput = _smooth_min(n, second, rng.uniform(4, 30))
    if rng.random() < 0.5:
        throughput = _smooth_min(throughput, first * (1.0 + slope * _log_uniform(rng, 0.3, 10)), 8.0)
    return _score(rng, throughput)


def _coordination(rng: Rng, n: Floats) -> Floats:
    """Time of a request: a serial part, a divided part, and coordination that grows; there is a best."""
    best, power = max(2.0, n.size * _log_uniform(rng, 0.03, 0.8)), rng.uniform(0.3, 2)
    time = rng.uniform(0.0, 0.2) + 1.0 / n + (n / best) ** power / (power * best)
    return _score(rng, np.asarray(1.0 / time))


def _mixed_nodes(rng: Rng, n: Floats) -> Floats:
    """Fast nodes are filled first, slower kinds after; the demand may end before the nodes do."""
    kinds = int(rng.integers(2, 6))
    speeds = np.sort(np.exp(rng.uniform(np.log(0.1), 0.0, kinds)))[::-1]
    ends = np.cumsum(rng.dirichlet(np.ones(kinds))) * n.size
    supply = np.cumsum(speeds[np.minimum(np.searchsorted(ends, n), kinds - 1)])
    return _score(rng, _smooth_min(supply, supply[-1] * _log_uniform(rng, 0.1, 3), rng.uniform(4, 30)))


def _shared_cache(rng: Rng, n: Floats) -> Floats:
    """Each replica adds cache; hits follow a Zipf popularity until everything fits, and misses are slow."""
    full, zipf, miss = _corner(rng, n), rng.uniform(0.4, 0.95), _log_uniform(rng, 3, 100)
    hits = np.minimum(1.0, n / full) ** (1.0 - zipf)
    return _score(rng, np.asarray(1.0 / (1.0 + miss * (1.0 - hits))))


def _remote_site(rng: Rng, n: Floats) -> Floats:
    """The home site holds some replicas; those past it are a round trip away, and the latency grows."""
    home, trip = _corner(rng, n), _log_uniform(rng, 0.05, 3)
    latency = 1.0 + trip * np.maximum(n - home, 0.0) / n
    return np.asarray(_smooth_min(n, _corner(rng, n), rng.uniform(2, 20)) / latency)


# Published throughput curves, from memory: approximations for their shape, not data to be cited. In some the
# axis was users or threads; here it is stretched to replicas.
_PUBLISHED: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...] = (
    # The Cisco benchmark in Schwartz, Practical Scalability Analysis with the USL.
    ((1, 5, 10, 15, 20, 25, 30, 32), (955, 4316, 7868, 9645, 10799, 12075, 12118, 12074)),
    # SPEC SDM91 on a Sun SPARCcenter 2000, scripts an hour over users (Gunther; also in the R package usl).
    ((1, 18, 36, 72, 108, 144, 216), (64.9, 995.9, 1652, 1853, 1829, 1775, 1702)),
    # Ray tracer on a NUMA machine, over processors (Gunther, Guerrilla Capacity Planning).
    ((1, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64), (20, 78, 130, 170, 190, 200, 210, 230, 260, 280, 310)),
    # memcached 1.2 over worker threads, one cache lock (Gunther, Subramanyam and Parvu 2010); rough.
    ((1, 2, 4, 6, 8, 10, 12), (81, 156, 265, 300, 278, 240, 200)),
    # Exim on stock Linux 2.6.35 over cores (Boyd-Wickizer et al., OSDI 2010), relative; rough.
    ((1, 4, 8, 16, 24, 32, 40, 48), (1, 3.9, 7.4, 13, 18, 21.5, 21, 17)),
    # PostgreSQL 9.1 pgbench read-only over clients on a large machine (R. Haas, 2011-2012), relative; rough.
    ((1, 8, 16, 32, 48, 64, 80), (4.4, 34, 65, 115, 105, 95, 92)),
    # MySQL 5 InnoDB sysbench OLTP over threads, as in many reports of its time, thousands a second; rough.
    ((1, 2, 4, 8, 16, 32, 64, 128), (0.6, 1.2, 2.3, 3.9, 5.0, 4.9, 4.3, 3.4)),
    # TensorFlow Inception-v3 training over workers (Abadi et al., OSDI 2016), images a second; rough.
    ((1, 25, 50, 100, 200), (25, 520, 950, 1600, 2300)),
)


def _published(rng: Rng, n: Floats) -> Floats:
    """One of the tables, cut at a drawn share of its range; monotone cubic (Fritsch-Butland) in between."""
    xs, ys = (np.array(column, dtype=float) for column in _PUBLISHED[rng.integers(len(_PUBLISHED))])
    at = 1.0 + (n - 1.0) / (n.size - 1.0) * (xs[-1] - 1.0) * rng.uniform(0.5, 1.0)
    widths = np.diff(xs)
    rises = np.diff(ys) / widths
    product = np.maximum(rises[:-1] * rises[1:], 0.0)  # the slope is zero at a turn, else a harmonic mean
    inner = 2.0 * product / np.where(product > 0, rises[:-1] + rises[1:], 1.0)
    slopes = np.concatenate((rises[:1], inner, rises[-1:]))
    i = np.clip(np.searchsorted(xs, at) - 1, 0, xs.size - 2)
    t = (at - xs[i]) / widths[i]
    value = ys[i] * (1 + 2 * t) * (1 - t) ** 2 + ys[i + 1] * t**2 * (3 - 2 * t)
    bend = widths[i] * t * (1 - t) * (slopes[i] * (1 - t) - slopes[i + 1] * t)
    return _score(rng, np.asarray(value + bend))


_LAWS: dict[str, Callable[[Rng, Floats], Floats]] = {
    law.__name__.removeprefix("_"): law
    for law in (
        *(_mmc_open, _closed_users, _goodput_timeouts, _usl_rising, _usl_retrograde, _amdahl),
        *(_gustafson_capped, _staircase, _consumer_group, _sigmoid, _cliff, _shared_database),
        *(_convex_concave, _log_growth, _cpu_then_network, _coordination, _mixed_nodes),
        *(_shared_cache, _remote_site, _published),
    )
}
FAMILIES: tuple[str, ...] = tuple(_LAWS)


def has_visible_knee(scores: Floats) -> bool:
    """Whether the curve rises clearly above the line from its first point to (capacity, maximum)."""
    y = (scores - scores.min()) / max(float(np.ptp(scores)), 1e-300)
    return bool(np.max(y - np.linspace(y[0], 1.0, y.size)) >= LEAST_RISE)


def draw(family: str, seed: int) -> BlindCurve:
    """The curve of a family and a seed: the first attempt with a visible knee."""
    attempt = 0
    while True:
        rng = np.random.default_rng([seed, FAMILIES.index(family), attempt])
        capacity = round(_log_uniform(rng, 10, 1000))
        best = _log_uniform(rng, 0.1, 1e4)  # the score at its best, in any unit
        scores = _LAWS[family](rng, np.arange(1.0, capacity + 1.0))
        if has_visible_knee(scores):
            return BlindCurve(family, capacity, tuple((scores * (best / scores.max())).tolist()), seed)
        attempt += 1


def write_csv(curves: Iterable[BlindCurve], path: Path) -> None:
    """One row a curve, no header: family-seed, capacity, score at 1, ..., score at capacity."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows((f"{c.family}-{c.seed}", c.capacity, *c.scores) for c in curves)
