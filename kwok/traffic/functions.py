"""The five functions of KneeScale's table III as parameters, and the cluster they run on.

Committed before any policy ran on them. The paper gives the pods' requests, the kind of work and the
cluster, but no service times. So these are round numbers that agree with what it does say: pods serve one
request at a time within their limit, float-operation's score at 20 clients keeps rising past 34 replicas,
and only model-serving-rnn stays below 5 invocations a second at 10 replicas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kwok.traffic.function import Function

__all__ = ["CLUSTER", "FUNCTIONS", "GATEWAY_TIMEOUT_S", "Cluster", "variants"]

# Of the gateway, from a request's arrival there to its answer. OpenFaaS ships 60 s read and write
# timeouts; the paper has errors under load with latencies of seconds (fig. 8), so the lab's is shorter.
GATEWAY_TIMEOUT_S = 20.0

_MIB = 1 << 20
# Spread of a request's demand. FunctionBench's inputs are of one size, so little; not none, since equal
# times would let closed-loop clients march in step.
_DEMAND_CV = 0.2


@dataclass(frozen=True)
class Cluster:
    """The nodes of one function's share of the lab."""

    node_cores: float
    node_memory_bytes: int
    allocatable_cores: tuple[float, ...]  # one a node

    def capacity(self, cpu_cores: float) -> int:
        """Whole replicas that fit (eq. 4); memory is not the limit here."""
        return sum(round(cores * 1000) // round(cpu_cores * 1000) for cores in self.allocatable_cores)


# IV-A: four machines of 8 cores. Table III's capacities, 114 replicas of 200m and 76 of 300m, say that
# 22.8 cores are allocatable. Replicas are whole: 5.7 a node would hold 112 and 76, these hold 114 and 76.
# Memory: 16 GB a node could not hold table III's 19 replicas of 1000 MiB; 32 GiB can, so that cpu binds.
CLUSTER = Cluster(node_cores=8.0, node_memory_bytes=32 << 30, allocatable_cores=(6.0, 6.0, 5.4, 5.4))

# Cold starts are loads of a language runtime (half a second under 0.3 cores), plus libraries: fig. 16 and
# IV-F say image-processing has the most, model-serving-rnn loads a framework.
FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        Function(
            name="float-operation",
            cpu_s=0.2,  # 1.0 s at 0.2 cores: nothing but arithmetic
            io_s=0.0,
            concurrency=1,  # one request at a time, as the classic OpenFaaS watchdog with one worker
            cold_start_s=0.5,
            cpu_cores=0.2,  # table III
            memory_bytes=400 * _MIB,  # table III
            demand_cv=_DEMAND_CV,
        ),
        Function(
            name="matmul",
            cpu_s=0.24,  # 0.8 s at 0.3 cores: cpu bound as float-operation, with half as much cpu again
            io_s=0.0,
            concurrency=1,
            cold_start_s=0.5,
            cpu_cores=0.3,  # table III, as for the next two
            memory_bytes=1000 * _MIB,
            demand_cv=_DEMAND_CV,
        ),
        Function(
            name="gzip-compression",
            cpu_s=0.06,  # 0.2 s at 0.3 cores
            io_s=0.7,  # table III: disk I/O is what it demands
            concurrency=1,
            cold_start_s=0.5,
            cpu_cores=0.3,
            memory_bytes=1000 * _MIB,
            demand_cv=_DEMAND_CV,
        ),
        Function(
            name="image-processing",
            cpu_s=0.27,  # 0.9 s at 0.3 cores
            io_s=0.2,  # fetches and stores an image
            concurrency=1,
            cold_start_s=3.0,  # the longest: fig. 16
            cpu_cores=0.3,
            memory_bytes=1000 * _MIB,
            demand_cv=_DEMAND_CV,
        ),
        Function(
            name="model-serving-rnn",
            cpu_s=1.2,  # 4 s at 0.3 cores: below 5 invocations a second at 10 replicas (IV-D)
            io_s=0.5,  # fetches its model's parameters
            concurrency=1,
            cold_start_s=1.5,
            cpu_cores=0.3,
            memory_bytes=1000 * _MIB,
            demand_cv=_DEMAND_CV,
        ),
    )
}


def variants(function: Function) -> dict[str, Function]:
    """The same function with other numbers, to see whether a result depends on the numbers above."""
    quarter = function.service_s / 4
    changes: dict[str, dict[str, float]] = {
        "slow": {"cpu_s": function.cpu_s * 2, "io_s": function.io_s * 2},
        "fast": {"cpu_s": function.cpu_s / 2, "io_s": function.io_s / 2},
        "concurrent": {"concurrency": 4},
        "io-heavy": {"cpu_s": quarter * function.cpu_cores, "io_s": quarter * 3},  # same service time
    }
    return {
        f"{function.name}-{kind}": replace(function, name=f"{function.name}-{kind}", **change)  # type: ignore[arg-type]
        for kind, change in changes.items()
    }
