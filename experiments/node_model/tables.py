"""The cells of the comparison as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

__all__ = ["cells_table"]


def cells_table(figures: Mapping[str, Any]) -> Table:
    table = Table(
        "pods x containers",
        "measured, s",
        "quartiles",
        "emulated, s",
        "error",
        "paper's form",
        "first / last",
    )
    for name, cell in figures["cells"].items():
        measured = cell["measured_s"]
        quartiles = f"{measured['lower_quartile']:.2f} - {measured['upper_quartile']:.2f}"
        said = (
            [f"{cell['emulated_s']:.2f}", f"{cell['error']:.0%}", f"{cell['paper_error']:.0%}"]
            if "error" in cell
            else ["", "", ""]
        )
        table.add_row(name, f"{measured['median']:.2f}", quartiles, *said, f"{cell['first_over_last']:.2f}")
    return table
