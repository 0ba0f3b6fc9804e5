"""Which function makes the section of which bench. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from experiments.results.checked_figures import UnknownBench, bench_of, escaped
from experiments.results.combofunc_sections import combofunc, planner
from experiments.results.dashboard_section import dashboard
from experiments.results.escra_section import escra
from experiments.results.fcma_sections import expander, joint, nodes, solver
from experiments.results.kneescale_sections import knee_search, kneescale
from experiments.results.placement_sections import extender, placement, placement_curve, pulls
from experiments.results.pulsenet_section import pulsenet, starts
from experiments.results.section import Cell, Figures, Section, ratio

__all__ = ["SECTIONS", "in_order", "plain_section", "section"]

# In the order of the page.
SECTIONS: Mapping[str, Callable[[Figures], Section]] = {
    "combofunc": combofunc,
    "combofunc --simulated": combofunc,
    "planner": planner,
    "placement": placement,
    "placement --simulated": placement_curve,
    "extender": extender,
    "kneescale": kneescale,
    "kneescale --simulated": kneescale,
    "knee-search": knee_search,
    "fcma": solver,
    "nodes": nodes,
    "nodes --joint": joint,
    "expander": expander,
    "escra": escra,
    "pulsenet --simulated": pulsenet,
    "pulsenet --starts": starts,
    "node-model --pulls-only": pulls,
    "dashboard": dashboard,
}


# A StopIteration inside a generator is a RuntimeError.
_OTHER_FORM = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(StopIteration, RuntimeError),
)


def section(figures: Figures) -> Section:
    """The section of these figures; a bench that has none is refused, and so are figures of another form."""
    bench = bench_of(figures)
    if bench not in SECTIONS:
        raise UnknownBench(f"bench {bench}: experiments/results/sections.py has no section for it")
    try:
        return SECTIONS[bench](escaped(figures))
    except _OTHER_FORM as error:
        # Sections read figures as benches write them; whatever a file has in their place ends up here.
        raise UnknownBench(f"not the figures of bench {bench}: {type(error).__name__}: {error}") from error


def plain_section(figures: Figures) -> Section:
    """Of a bench without a section: its single figures, with intervals where it has them."""
    rows = list(_single(escaped({key: value for key, value in figures.items() if key != "about"})))
    return Section(f"Other: {escaped(bench_of(figures))}", ("figure", "value"), rows)


def in_order(files: Mapping[str, Figures]) -> list[str]:
    """Names of files, as the page has them; those without a section last."""
    known = list(SECTIONS)
    place = {
        name: known.index(b) if (b := bench_of(of)) in known else len(known) for name, of in files.items()
    }
    return sorted(files, key=lambda name: (place[name], name))


def _single(figures: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    for key, value in figures.items():
        if isinstance(value, dict):
            if {"low", "high"} <= value.keys() & {k for k, v in value.items() if isinstance(v, int | float)}:
                yield key, ratio(value, None, 3)
        elif not isinstance(value, list):
            yield key, str(value)
