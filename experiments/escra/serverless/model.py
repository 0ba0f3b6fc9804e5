"""The two serverless applications, and the ways to limit them. Pure.

As the paper's, with OpenWhisk's limits of 1 vCPU and 256 MiB a pod, on a vCPU of a fifth of a core, so that
twelve pods fit this machine: a request's one thread uses no more than that, whatever its limit.
`image` is one request every 0.8 s, from zero pods; a pod that is idle takes the next one. `batch` is a job
whose workers take tasks until all are done, each time from zero pods. What a request takes is drawn from its
number, so every arm gets the same work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from experiments.escra.arms import ARMS
from limit_allocator.allocation.model import PERIOD_US, Parameters, Variant
from limit_allocator.cgroups.container import Limits

__all__ = [
    "BATCH", "IMAGE", "LATEST_S", "PAIRS", "VCPU_CORES", "Function", "Serverless", "ServerlessArm",
    "ServerlessRun",
]  # fmt: skip

VCPU_CORES = 0.2
LATEST_S = 30.0  # after which a request counts as failed
_MIB = 1 << 20
_POD_US, _POD_BYTES = round(VCPU_CORES * PERIOD_US), 256 * _MIB


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    cpu_s: float  # of a vCPU: mean of a request, log-normal
    wait_s: float  # for a store, without CPU
    base_mib: int
    request_mib: int
    most_pods: int  # the pool, as OpenWhisk's containerPool
    upsilon: float  # section VI-F; `paper` alone has it

    def arguments(self, port: int, seed: int) -> list[str]:
        """As the microservice wants them."""
        return [
            f"-port={port}",
            f"-cpu-us={round(self.cpu_s * VCPU_CORES * 1e6)}",
            f"-share={VCPU_CORES}",
            f"-wait-ms={round(self.wait_s * 1e3)}",
            f"-base-mib={self.base_mib}",
            f"-request-kib={self.request_mib << 10}",
            f"-seed={seed}",
        ]


IMAGE = Function("image", 1.2, 0.6, base_mib=40, request_mib=100, most_pods=12, upsilon=35.0)
BATCH = Function("batch", 0.6, 0.6, base_mib=60, request_mib=85, most_pods=10, upsilon=20.0)


@dataclass(frozen=True, slots=True)
class ServerlessArm:
    name: str
    ours: Parameters | None = None
    factor: float = 1.0  # of the static limits' sum, for all pods together

    def total(self, function: Function) -> tuple[int, int]:
        """The application's global limits."""
        pods = function.most_pods
        return round(self.factor * pods * _POD_US), round(self.factor * pods * _POD_BYTES)

    @property
    def spec(self) -> tuple[int, int]:
        """What a pod's author writes."""
        return _POD_US, _POD_BYTES

    def limits(self, function: Function) -> Limits:
        """What a pod begins with: with ours its ceiling, the application's whole limit."""
        cpu_us, memory_bytes = self.total(function) if self.ours else (_POD_US, _POD_BYTES)
        return Limits(cpu_us, 0, memory_bytes)


@dataclass(frozen=True, slots=True)
class ServerlessRun:
    function: Function
    arm: ServerlessArm
    seed: int

    def key(self, plan: Serverless) -> str:
        length = f"{plan.image_s:g}s" if self.function is IMAGE else f"{plan.jobs}x{plan.tasks}"
        return f"serverless/{self.function.name}/{length}/{self.seed}/{self.arm.name}"


@dataclass(frozen=True, slots=True)
class Serverless:
    """How much is played."""

    image_s: float = 40.0
    jobs: int = 3
    tasks: int = 100  # of a job: it lasts longer than two reclamations
    paper: bool = True  # the printed equations, too

    @property
    def run_s(self) -> Mapping[str, float]:
        """About, with the start of agent and controller."""
        task_s = (BATCH.cpu_s + BATCH.wait_s) / BATCH.most_pods
        return {
            IMAGE.name: self.image_s + 5.0,
            BATCH.name: self.jobs * (1.3 * self.tasks * task_s + 1.0) + 4.0,
        }

    def runs(self, seed: int) -> list[ServerlessRun]:
        """Arms alternate: another one is first for each seed."""
        best = ARMS["ours_1_5"].ours or Parameters()
        arms = [ServerlessArm("static"), ServerlessArm("ours", best)]
        found = []
        for function in (IMAGE, BATCH):
            its = [*arms, *([ServerlessArm("ours_80", best, 0.8)] if function is BATCH else [])]
            if self.paper:
                printed = replace(best, variant=Variant.PAPER, upsilon=function.upsilon, burst=0.0)
                its.append(ServerlessArm("paper", printed))
            first = seed % len(its)
            found += [ServerlessRun(function, arm, seed) for arm in (*its[first:], *its[:first])]
        return found


# What is shown as a ratio: name -> function, baseline, ours.
PAIRS = {
    "image": ("image", "static", "ours"),
    "batch": ("batch", "static", "ours"),
    "batch_80": ("batch", "static", "ours_80"),
}
