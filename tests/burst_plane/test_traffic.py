"""What the controller makes of placements' reports."""

from __future__ import annotations

import pytest

from burst_plane.model import Function
from burst_plane.traffic import Account, Totals
from burst_plane.wire.messages import FunctionTraffic
from tests.burst_plane.objects import function

RESIZE = Function("shop", "resize")


def seen(arrivals: int = 0, **changes: float) -> FunctionTraffic:
    plain: dict[str, float] = {"in_regular": 0.0, "queued": 0.0, "in_emergency": 0.0}
    return FunctionTraffic(function=RESIZE, arrivals=arrivals, **(plain | changes))  # type: ignore[arg-type]


def test_placements_add_up_and_a_silent_one_is_dropped() -> None:
    account = Account(function())
    account.take("p1", seen(in_regular=1.0, queued=2.0), 0.0)
    account.take("p2", seen(in_regular=3.0), 2.0)
    assert account.concurrency(2.0).total == 6.0
    account.tick(2.0)
    assert account.scaler.average(2.0) == 6.0
    assert account.concurrency(4.0).total == 3.0
    account.tick(100.0)  # nobody reports: nothing is recorded, and nothing is known
    assert account.scaler.average(100.0) is None


def test_emergency_requests_count_only_if_the_filter_says_so_and_queued_ones_always() -> None:
    account = Account(function())
    account.take("p", seen(1, in_emergency=5.0, queued=1.0), 0.0)
    assert account.concurrency(0.0).total == 1.0  # no history
    account.take("p", seen(1, in_emergency=5.0, queued=1.0), 30.0)
    assert account.concurrency(30.0).total == 6.0  # 30 s is less than the keepalive
    rare = Account(function(keepalive="20s"))
    for at_s in (0.0, 30.0):
        rare.take("p", seen(1, in_emergency=5.0, queued=1.0), at_s)
    assert rare.concurrency(30.0).total == 1.0


def test_the_view_sums_over_a_minute_and_an_hour() -> None:
    account = Account(function())
    for second in range(120):
        account.take("p", seen(2, started=1, hits=1, refused=0, in_emergency=1.0), float(second))
    view = account.view(119.0)
    assert view.arrivals_per_s == pytest.approx(2.0)
    assert view.starts_per_s == pytest.approx(1.0)
    assert view.share == pytest.approx(0.5)
    assert view.totals == Totals(240, 120, 120, 0, 0)
    assert (view.percentile_s, view.counts) == (0.0, True)
    later = account.view(5000.0)
    assert (later.arrivals_per_s, later.share, later.in_emergency) == (0.0, 0.0, 0.0)
    assert not later.counts


def test_a_changed_spec_keeps_what_was_seen() -> None:
    account = Account(function())
    account.take("p", seen(5), 0.0)
    account.follow(function(keepalive="10s", concurrency=4))
    assert account.history.count == 4
    assert (account.scaler.parameters.window_s, account.scaler.parameters.target) == (10.0, 2.8)
