"""`surgekit report`: results of benches as one page to share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

__all__ = ["app"]

app = typer.Typer(help="One HTML page of benches' results, beside the papers' numbers.")


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="What benches wrote with --json.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path(
        "out/report.html"
    ),
    title: Annotated[str, typer.Option(help="The page's heading.")] = "surgekit, measured",
) -> None:
    """One HTML page of these results: plots beside the papers' numbers, tables, commands.

    The page holds all it needs and asks no network. Its address keeps what is shown: share it.
    """
    from experiments.results.checked_figures import read_figures  # noqa: PLC0415  # --help does not wait for it
    from experiments.results.report.html_page import html_page  # noqa: PLC0415

    found = {str(file): read_figures(file) for file in files}
    page = html_page(found, title)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page)
    results = f"{len(found)} result{'' if len(found) == 1 else 's'}"
    size_mb = len(page.encode()) / 1e6
    Console(highlight=False, soft_wrap=True).print(f"wrote {output}: {results}, {size_mb:.1f} MB")
