"""Sets of sizes against every set there is."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

from hypothesis import given, settings
from hypothesis import strategies as st

from combofunc.planner.fillings import Limits, fillings, undominated
from combofunc.planner.model import Size
from combofunc.planner.work import Work
from tests.combofunc.planner.builders import MIB, SIZES

few_sizes = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=4
).map(lambda found: [Size(f"s{i}", 100 * c, m * MIB, q) for i, (q, c, m) in enumerate(found)])


def test_a_size_that_another_is_better_than_is_left_out() -> None:
    useless = Size("useless", 1000, 2048 * MIB, 7)
    assert undominated([*SIZES, useless]) == [0, 1, 2]
    assert undominated([SIZES[0], SIZES[0]]) == [0], "of equals the first"


@settings(max_examples=100)
@given(few_sizes, st.integers(0, 4), st.integers(0, 15), st.integers(0, 20), st.integers(0, 20))
def test_every_set_has_one_as_good(sizes: list[Size], depth: int, target: int, cpu: int, memory: int) -> None:
    found = fillings(sizes, Limits(depth, target, 100 * cpu, memory * MIB), Work(math.inf))
    numbers = list(zip(found.count, -found.concurrency, found.cpu, found.memory, strict=True))
    for i in range(len(numbers)):
        chosen = [sizes[j] for j in found.sizes(i)]
        assert numbers[i] == _numbers(chosen, target)
        assert found.cpu[i] <= 100 * cpu
        assert found.memory[i] <= memory * MIB
    for count in range(depth + 1):
        for chosen_ in combinations_with_replacement(sizes, count):
            wanted = _numbers(list(chosen_), target)
            if wanted[2] <= 100 * cpu and wanted[3] <= memory * MIB:
                assert any(all(a <= b for a, b in zip(n, wanted, strict=True)) for n in numbers)


def _numbers(chosen: list[Size], target: int) -> tuple[int, int, int, int]:
    return (
        len(chosen),
        -min(sum(s.concurrency for s in chosen), target),
        sum(s.cpu_millicores for s in chosen),
        sum(s.memory_bytes for s in chosen),
    )
