"""PulseNet's regular track: the controller's own account of each function, told each second. Pure."""

from __future__ import annotations

import math

from burst_plane.burst_function import BurstFunction, Variant, Via
from burst_plane.model import Function
from burst_plane.traffic import Account
from burst_plane.wire.messages import FunctionTraffic
from experiments.pulsenet.model import Floats, Integers
from experiments.pulsenet.simulation import Fn, Simulation
from surgekit.kube.scale_target import ScaleTarget
from surgekit.process.modes import Mode

__all__ = ["RegularTrack", "Rules", "burst_function", "name_of"]

_PLACEMENT = "placement"
_LOOK_EVERY_S = 4  # at functions that sleep; the controller looks each second
_MEMORY_S = 60  # of a window; what an account is told when its function wakes


class Rules:
    """What a BurstFunction says; defaults are the CRD's."""

    def __init__(
        self, keepalive_s: float = 60.0, threshold_percentile: float = 50.0, target_percentage: float = 70.0,
        most_instances: int = 10, variant: Variant = Variant.BEST,
    ) -> None:  # fmt: skip
        self.keepalive_s, self.threshold_percentile = keepalive_s, threshold_percentile
        self.target_percentage, self.most_instances = target_percentage, most_instances
        self.variant = variant


def name_of(index: int) -> Function:
    return Function("default", f"f{index}")


def burst_function(index: int, rules: Rules) -> BurstFunction:
    function = name_of(index)
    return BurstFunction(
        function=function,
        uid=function.name,
        generation=1,
        target=ScaleTarget("apps/v1", "Deployment", function.namespace, function.name),
        mode=Mode.ENFORCE,
        variant=rules.variant,
        concurrency=1,
        idempotent=False,
        keepalive_s=rules.keepalive_s,
        threshold_percentile=rules.threshold_percentile,
        most_instances=rules.most_instances,
        longest_s=3600.0,
        via=Via.SCALE,
        min_replicas=0,
        max_replicas=1000,
        target_percentage=rules.target_percentage,
    )


class _Memo:
    __slots__ = (
        "account",
        "arrivals",
        "busy_s",
        "emergency_s",
        "name",
        "queued_s",
        "refused",
        "started",
        "told_s",
    )

    def __init__(self, account: Account) -> None:
        self.account, self.name = account, account.function.function
        self.busy_s = self.queued_s = self.emergency_s = 0.0
        self.arrivals = self.started = self.refused = 0
        self.told_s = -math.inf


class RegularTrack:
    def __init__(self, rules: Rules, history: list[list[tuple[int, int]]]) -> None:
        """`history`: (second before 0, arrivals in it) of each function, by time."""
        self._rules, self._history = rules, history

    def begin(self, world: Simulation) -> None:
        self._world = world
        for fn, seconds in zip(world.functions, self._history, strict=True):
            fn.memo = memo = _Memo(Account(burst_function(fn.index, self._rules)))
            for second, arrivals in seconds:
                memo.account.history.observe(arrivals, float(second))
            memo.account.weigh(int(fn.memory_bytes))
            memo.account.follow(memo.account.function)

    def account(self, fn: Fn) -> Account:
        memo: _Memo = fn.memo
        return memo.account

    def woken(self, fn: Fn, now_s: float) -> None:
        """The real placement reports zeros while a function sleeps. One of them, as old as the window, has
        the same effect."""
        memo: _Memo = fn.memo
        fn.touch(now_s)
        memo.busy_s, memo.queued_s, memo.emergency_s = fn.busy_s, fn.queued_s, fn.emergency_s
        since_s = math.floor(now_s) - _MEMORY_S + 2
        if memo.told_s < since_s:
            zero = FunctionTraffic(
                function=memo.name, arrivals=0, in_regular=0.0, queued=0.0, in_emergency=0.0
            )
            memo.account.take(_PLACEMENT, zero, since_s)
            memo.account.tick(since_s)

    def missed(self, fn: Fn, now_s: float) -> None:
        pass

    def second(self, fn: Fn, now_s: float) -> bool:
        memo: _Memo = fn.memo
        busy_s, memo.busy_s = fn.busy_s - memo.busy_s, fn.busy_s
        queued_s, memo.queued_s = fn.queued_s - memo.queued_s, fn.queued_s
        emergency_s, memo.emergency_s = fn.emergency_s - memo.emergency_s, fn.emergency_s
        arrivals, memo.arrivals = fn.arrivals - memo.arrivals, fn.arrivals
        started, memo.started = fn.started - memo.started, fn.started
        refused, memo.refused = fn.refused - memo.refused, fn.refused
        seen = FunctionTraffic(
            function=memo.name,
            arrivals=arrivals,
            in_regular=busy_s,
            queued=queued_s,
            in_emergency=emergency_s,
            started=started,
            refused=refused,
        )
        memo.account.take(_PLACEMENT, seen, now_s)
        memo.account.tick(now_s)
        memo.told_s = now_s
        # Asleep is what has nothing, and has been told zeros for a window.
        return bool(
            arrivals or busy_s or queued_s or emergency_s or fn.busy or fn.idle or fn.queue or fn.creating
            or fn.asked or fn.in_emergency
            or memo.account.expects(now_s) or memo.account.scaler.average(now_s)
        )  # fmt: skip

    def decide(self, fn: Fn, now_s: float) -> None:
        decision = fn.memo.account.scaler.decide(fn.ready, fn.asked, now_s)
        if decision.valid:
            self._world.scale(fn, decision.action, now_s)

    def every_second(self, now_s: float) -> None:
        """A function that sleeps wakes when its next request is expected."""
        if round(now_s) % _LOOK_EVERY_S:
            return
        for fn in self._world.functions:
            if fn.index not in self._world.awake and fn.memo.account.expects(now_s):
                self._world.awake[fn.index] = fn
                self.woken(fn, now_s)


def seconds_before(
    at_s: Floats, function: Integers, functions: int, before_s: float
) -> list[list[tuple[int, int]]]:
    """Arrivals by second, of the hour before; times are from -before_s to 0."""
    found: list[dict[int, int]] = [{} for _ in range(functions)]
    for at, index in zip(at_s.tolist(), function.tolist(), strict=True):
        second = math.floor(at - before_s) + 1  # the step that ends then
        found[index][second] = found[index].get(second, 0) + 1
    return [sorted(of.items()) for of in found]
