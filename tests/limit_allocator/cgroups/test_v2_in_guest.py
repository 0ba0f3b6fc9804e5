"""The agent's code on a real cgroup v2 hierarchy, in a guest with Debian's kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kwok import guest
from tests.limit_allocator.cgroups.node import MIB
from tests.paths import ROOT

pytestmark = [pytest.mark.lab, pytest.mark.real_node]  # alone: the guest is slow enough
WRITTEN = "Written()"


def guest_files() -> dict[str, Path | bytes]:
    sources = [*ROOT.glob("limit_allocator/**/*.py"), *Path(__file__).parent.glob("*.py")]
    packages = [ROOT / "tests/__init__.py", ROOT / "tests/limit_allocator/__init__.py"]
    return {f"app/{path.relative_to(ROOT)}": path for path in (*sources, *packages)}


def in_guest(*names: str) -> Any:
    program = ["tests.limit_allocator.cgroups.guest_program", *names]
    python = str(Path(sys.executable).resolve())
    ended = guest.run(
        guest_files(), ["env", "PYTHONPATH=/app", python, "-m", *program], cores=2, timeout_s=280
    )
    line = next((line for line in ended.output.splitlines() if line.startswith("RESULT ")), None)
    assert line, ended.output
    return json.loads(line.removeprefix("RESULT "))


@pytest.fixture(scope="module")
def seen() -> Any:
    if reason := guest.why_no_guest():
        pytest.skip(f"no guest: {reason}")
    return in_guest()


def test_throttling_is_seen_and_the_quota_follows(seen: Any) -> None:
    assert seen["cpu"]["found"]
    tight, wide = seen["cpu"]["readings"]
    assert (tight["result"], tight["quota_us"]) == (WRITTEN, 20_000)
    assert tight["throttled"] >= 5
    assert tight["throttled_us"] > 0
    assert tight["used_us"] < 500_000
    assert (wide["quota_us"], wide["throttled"]) == (400_000, 0)


def test_burst_makes_room_for_a_smaller_quota_and_returns(seen: Any) -> None:
    states = [(s["result"], s["cpu.max"], s["cpu.max.burst"]) for s in seen["burst"]]
    assert states == [
        (WRITTEN, "30000 100000", "30000"),
        (WRITTEN, "45000 100000", "40000"),
        (WRITTEN, "60000 100000", "60000"),
        (WRITTEN, "20000 100000", "20000"),
    ]


@pytest.mark.parametrize("mode", ["steps", "memset", "populate", "read"])
def test_a_process_grows_past_its_limit_and_lives(seen: Any, mode: str) -> None:
    grown = seen[mode]
    assert (grown["alive"], grown["kills"]) == (True, 0)
    assert 4 <= grown["raises"] <= 12


def test_the_same_process_dies_without_us(seen: Any) -> None:
    assert seen["unarmed"] == {"alive": False, "kills": 1}


def test_memory_is_never_lowered_under_use(seen: Any) -> None:
    lowered = seen["lowering"]
    assert lowered["refused"] == "Refused(errno=16, file='memory.max')"
    assert lowered["same"]
    assert (lowered["taken"], lowered["memory.max"]) == (WRITTEN, str(64 * MIB))
    assert lowered["alive"]


def test_a_foreign_write_is_corrected_within_a_tick(seen: Any) -> None:
    assert seen["drift"] == [["quota"], True, ["high"], True, ["memory"], True]


def test_the_kernel_decides_after_the_longest_pause(seen: Any) -> None:
    paused = seen["pause"]
    assert {"needs_memory", "released", "killed"} <= set(paused["kinds"])
    assert (paused["status"], paused["memory.high"]) == (-9, "max")
    assert paused["seconds"] >= 2.0


def test_write_back_equals_the_originals(seen: Any) -> None:
    assert seen["journal"] is True


def test_the_guard_undoes_memory_high_within_a_second_of_sigkill(seen: Any) -> None:
    assert seen["guard"]["armed"]["memory.high"] == str(44 * MIB)
    assert seen["guard"]["memory.high"] == "max"
    assert seen["guard"]["seconds"] < 1.0
