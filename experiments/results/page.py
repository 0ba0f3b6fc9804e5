"""Write docs/results.md from the JSON files of benches. Pure.

A file says in `about` which command wrote it. A section reads the figures of one bench; a bench that no
section knows is refused. (sections.py has the tables.)
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from experiments.results.section import Figures, Section
from experiments.results.sections import SECTIONS
from kwok.errors import LabError

__all__ = ["RAW", "UnknownBench", "bench_of", "page", "section", "summary_table"]

# Measurements behind the figures: too much to keep beside the page.
RAW = frozenset(
    {
        "by_curve",
        "choices",
        "equal_rounds",
        "mixes",
        "played",
        "rates",
        "rounds",
        "rows",
        "sweep",
        "utilisation",
    }
)
_WAYS = ("--simulated", "--live", "--pulls-only", "--starts", "--joint")  # each with a section of its own
_HEAD = """\
# Results

<!-- Written by `surgekit bench results`. Edit experiments/results/sections.py, not this file. -->

Each table comes from one command, whose figures are in [results/data/](results/data). Intervals are 95 %
bootstrap intervals over seeds (or rounds) and functions. Reported seeds are 2001 and
up; nobody tuned on them.
What was tried, and older figures: [ComboFunc](results/combofunc.md), [FCMA](results/fcma.md),
[KneeScale](results/kneescale.md), [lab, extender, probe, gateway](results/lab.md),
[how node speeds change](results/node-speeds.md),
[of before the lab's nodes were calibrated](results/before-calibration.md).
"""


class UnknownBench(LabError):
    """No section shows the figures of this bench."""


def page(files: Mapping[str, Figures]) -> str:
    """The whole page; `files` maps the name of a file to its content."""
    return "\n".join([_HEAD, *(_written(files[name]) for name in sorted(files, key=_order(files)))])


def summary_table(files: Mapping[str, Figures]) -> str:
    """The README's table."""
    found = [section(files[name]).summary for name in sorted(files, key=_order(files))]
    rows = [(s.part, s.result, s.behind) for s in found if s]
    head = ("", "in the lab", "where it is behind")
    return "\n".join(_table([head, ["---"] * len(head), *rows]))


def bench_of(figures: Figures) -> str:
    """The name of the bench, with `--simulated` and the like as in `combofunc --simulated`."""
    if "about" not in figures:
        raise UnknownBench("a file without `about` is not of `surgekit bench ... --json FILE`")
    words = shlex.split(figures["about"]["command"])[2:]
    ways = [
        word for word in words[1:] if word in ("--simulated", "--live", "--pulls-only", "--starts", "--joint")
    ]
    return " ".join([words[0], *ways])


def section(figures: Figures) -> Section:
    bench = bench_of(figures)
    if bench not in SECTIONS:
        raise UnknownBench(f"bench {bench}: experiments/results/sections.py has no section for it")
    return SECTIONS[bench](figures)


def _order(files: Mapping[str, Figures]) -> Callable[[str], tuple[int, str]]:
    known = list(SECTIONS)
    return lambda name: (known.index(bench_of(files[name])), name)


def _written(figures: Figures) -> str:
    found, about = section(figures), figures["about"]
    lines = [f"## {found.title}", "", f"`{about['command']}`, {about['date']}, {_machine(about)}:", ""]
    lines += _table([found.columns, ["---"] * len(found.columns), *found.rows])
    for note in found.notes:
        lines += ["", note]
    return "\n".join([*lines, ""])


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in rows]


def _machine(about: Figures) -> str:
    commit = f", commit {about['commit']}" if about.get("commit") else ""
    return f"{about['cores']} cores, {about['memory_gib']} GiB{commit}"
