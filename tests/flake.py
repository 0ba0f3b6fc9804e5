"""Run the lab tests many times; list those that were not green every time: `make flake N=5 LOADED=2`.

Each run leaves its JUnit file in `out/flake/<commit>/`. A run that is there is not repeated, so a hunt that
was cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="on cores that do nothing else")
    parser.add_argument("--loaded-runs", type=int, default=0, help="while something else takes all cores")
    parser.add_argument("pytest", nargs="+", help="arguments for pytest, after --")
    given = parser.parse_args()
    directory = ROOT / "out" / "flake" / _commit()
    directory.mkdir(parents=True, exist_ok=True)
    names = [f"quiet-{i + 1}" for i in range(given.runs)]
    names += [f"loaded-{i + 1}" for i in range(given.loaded_runs)]
    results = {name: _run(directory / f"{name}.xml", name, given.pytest) for name in names}
    report = not_always_green(results)
    _say("\n".join(report) if report else f"{len(results)} runs, every test green in each")
    return 1 if report else 0


def not_always_green(results: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each test that failed somewhere or that some run lacks: the runs, and the first message."""
    bad: dict[str, dict[str, str]] = defaultdict(dict)
    for test in {test for result in results.values() for test in result}:
        for run, result in results.items():
            if message := result.get(test, "did not run"):
                bad[test][run] = message
    for run, result in results.items():
        if not result:
            bad["(no test at all)"][run] = "did not run"
    return [
        f"{test}: {len(runs)} of {len(results)} ({', '.join(runs)}): {next(iter(runs.values()))}"
        for test, runs in sorted(bad.items())
    ]


def outcomes(junit: str) -> dict[str, str]:
    """Of a JUnit file: the message of each test, empty when it was green or skipped."""
    found: dict[str, str] = {}
    for case in ET.fromstring(junit).iter("testcase"):  # noqa: S314  # pytest wrote it
        name = f"{case.get('classname')}::{case.get('name')}"
        faults = [*case.iter("failure"), *case.iter("error")]
        messages = [(fault.get("message") or "failed").splitlines()[0][:200] for fault in faults]
        # A test whose teardown failed is there twice.
        found[name] = found.get(name) or next(iter(messages), "")
    return found


def _run(junit: Path, name: str, arguments: Sequence[str]) -> dict[str, str]:
    if not junit.exists():
        unfinished = junit.with_suffix(".unfinished")
        started_s = time.monotonic()
        with _load() if name.startswith("loaded") else nullcontext():
            argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={unfinished}"]
            subprocess.run(argv + list(arguments), cwd=ROOT, check=False, stdin=subprocess.DEVNULL)
        unfinished.replace(junit)
        _say(f"{name}: {time.monotonic() - started_s:.0f} s")
    return outcomes(junit.read_text())


@contextmanager
def _load() -> Iterator[None]:
    """Take every core, at ordinary priority, as a neighbour would."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _spin() -> None:
    while True:
        pass


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
