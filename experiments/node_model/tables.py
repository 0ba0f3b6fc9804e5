"""The cells of the comparison as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

__all__ = ["cells_table", "pulls_table"]


def cells_table(figures: Mapping[str, Any]) -> Table:
    table = Table("pods x containers", "seconds", "quartiles", "emulated", "error", "paper's", "first / last")
    for name, cell in figures["cells"].items():
        quartiles = f"{cell['lower_quartile_s']:.2f} - {cell['upper_quartile_s']:.2f}"
        claimed = ["", "", ""]
        if "error" in cell:
            claimed = [f"{cell['emulated_s']:.2f}", f"{cell['error']:.0%}", f"{cell['paper_error']:.0%}"]
        first = f"{cell['first_over_last']:.2f}"
        table.add_row(name, f"{cell['measured_s']:.2f}", quartiles, *claimed, first)
    return table


def pulls_table(figures: Mapping[str, Any]) -> Table:
    title = (
        f"a pull takes {figures['fixed_s']:.2f} s, and a second for every "
        f"{figures['mebibytes_per_s']:.0f} MiB; off by {figures['pull_error_mean']:.1%}, "
        f"{figures['pull_error_worst']:.1%} at worst"
    )
    table = Table("images pulled", "seconds", "quartiles", "emulated", "error", title=title)
    for name, cell in figures["cells"].items():
        quartiles = f"{cell['lower_quartile_s']:.2f} - {cell['upper_quartile_s']:.2f}"
        claimed = f"{cell['emulated_s']:.2f}", f"{cell['error']:.0%}"
        table.add_row(name, f"{cell['measured_s']:.2f}", quartiles, *claimed)
    return table
