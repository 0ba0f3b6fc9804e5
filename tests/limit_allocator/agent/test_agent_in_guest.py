"""The whole agent, without its stream, on a real cgroup v2 hierarchy: in a guest with Debian's kernel."""

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
NEEDED = ("numpy", "msgspec", "structlog", "typing_extensions")


def guest_files() -> dict[str, Path | bytes]:
    sources = [path for part in ("limit_allocator", "surgekit") for path in ROOT.glob(f"{part}/**/*.py")]
    tests = [*ROOT.glob("tests/limit_allocator/**/*.py"), ROOT / "tests/__init__.py"]
    return {f"app/{path.relative_to(ROOT)}": path for path in (*sources, *tests)}


@pytest.fixture(scope="module")
def seen() -> Any:
    if reason := guest.why_no_guest():
        pytest.skip(f"no guest: {reason}")
    python = str(Path(sys.executable).resolve())
    where = f"PYTHONPATH=/app:{guest.PACKAGES}"
    ended = guest.run(
        guest_files() | guest.installed(*NEEDED),
        ["env", where, "OPENBLAS_NUM_THREADS=1", python, "-m", "tests.limit_allocator.agent.guest_program"],
        cores=2,
        memory_mib=2048,
        cpu="Nehalem",  # numpy's wheels ask for x86-64-v2
        timeout_s=280,
    )
    line = next((line for line in ended.output.splitlines() if line.startswith("RESULT ")), None)
    assert line, ended.output
    return json.loads(line.removeprefix("RESULT "))


def test_orders_are_carried_out_and_opting_out_restores(seen: Any) -> None:
    assert seen["orders"]["found"] == [50_000, 256 * MIB]
    limited = seen["orders"]["limited"]
    assert (limited["cpu.max"], limited["memory.max"]) == ("20000 100000", str(64 * MIB))
    assert int(limited["memory.high"]) < 64 * MIB, "it is armed"
    assert seen["orders"]["opted_out"]


def test_throttling_is_reported(seen: Any) -> None:
    reading = seen["telemetry"]
    assert reading["quota_us"] == 20_000
    assert reading["throttled_us"] > 0
    assert reading["periods"] >= reading["throttled_periods"] >= 5


def test_a_process_grows_out_of_the_reserve_and_lives(seen: Any) -> None:
    growth = seen["growth"]
    assert (growth["alive"], growth["kills"]) == (True, 0)
    assert 132 < growth["limit_mib"] <= 32 + 160
    assert growth["events"] >= 1


def test_a_foreign_write_is_counted_and_corrected(seen: Any) -> None:
    assert seen["foreign_write"]["foreign_writes"] >= 1
    assert seen["foreign_write"]["same"]


def test_the_next_agent_restores_what_a_killed_one_left(seen: Any) -> None:
    assert seen["killed"] == {"differs": True, "restored": True, "goes_on": True, "stopped": True}
