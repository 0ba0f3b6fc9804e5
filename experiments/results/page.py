"""Write docs/results.md from the JSON files of benches. Pure.

A file says in `about` which command wrote it. (sections.py knows which function makes its section, and
report/ writes the same sections as HTML.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from experiments.results.checked_figures import About, about_of
from experiments.results.plot import Lines
from experiments.results.section import Cell, Figures
from experiments.results.sections import in_order, section

__all__ = ["RAW", "machine", "page", "summary_table"]

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
_HEAD = """\
# Results

<!-- Written by `surgekit bench results`. Edit the sections in experiments/results/, not this file. -->

Each table comes from one command, whose figures are in [results/data/](results/data).
`surgekit report FILE...` makes one page of such files, with plots beside the papers' numbers. Intervals are
95 % bootstrap intervals over seeds (or rounds) and functions. Reported seeds are 2001 and up; nobody tuned
on them.
What was tried, and older figures: [ComboFunc](results/combofunc.md), [FCMA](results/fcma.md),
[KneeScale](results/kneescale.md), [lab, extender, probe, gateway](results/lab.md),
[how node speeds change](results/node-speeds.md),
[of before the lab's nodes were calibrated](results/before-calibration.md).
"""


def page(files: Mapping[str, Figures]) -> str:
    """The whole page; `files` maps the name of a file to its content."""
    return "\n".join([_HEAD, *("\n".join([*_written(files[name]), ""]) for name in in_order(files))])


def summary_table(files: Mapping[str, Figures]) -> str:
    """The README's table."""
    found = [section(files[name]).summary for name in in_order(files)]
    rows = [(s.part, s.result, s.behind) for s in found if s]
    head = ("", "in the lab", "where it is behind")
    return "\n".join(_table([head, ["---"] * len(head), *rows]))


def _written(figures: Figures) -> Iterator[str]:
    found, about = section(figures), about_of(figures)
    yield from (f"## {found.title}", "", f"`{about.command}`, {about.date}, {machine(about)}:", "")
    yield from _table([found.columns, ["---"] * len(found.columns), *found.rows])
    for note in found.notes:
        yield from ("", note)
    for plot in found.plots:
        if isinstance(plot, Lines) and plot.picture:
            yield from ("", f"![{plot.title}]({plot.picture})")


def _table(rows: Sequence[Sequence[Cell]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in rows]


def machine(about: About) -> str:
    commit = f", commit {about.commit}" if about.commit else ""
    return f"{about.cores} cores, {about.memory_gib:g} GiB{commit}"
