"""`surgekit docs report`: the pictures of the report, and of the dashboard's panels, in README and docs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.browser import started
from experiments.results.checked_figures import read_figures
from experiments.results.report.html_page import html_page
from experiments.results.section import Figures

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["take"]

_WIDTH, _TOP = 1240, 1160  # pixels: of the page, and how much of the report is shown
_VIEW = "#systems=ComboFunc"


def take(docs: Path, dashboard: Path) -> list[Path]:
    """Write pictures of the results kept in `docs`, and of the dashboard's figures; return the files."""
    kept = {file.name: read_figures(file) for file in (docs / "results" / "data").glob("*.json")}
    played = {dashboard.name: read_figures(dashboard)}
    report, panels = docs / "report.png", docs / "dashboard.png"
    clip = {"x": 0.0, "y": 0.0, "width": float(_WIDTH), "height": float(_TOP)}

    def top(page: Page) -> None:
        page.screenshot(path=report, clip=clip, full_page=True)  # type: ignore[arg-type]  # a TypedDict of playwright's

    def plots(page: Page) -> None:
        page.locator(".plots").first.screenshot(path=panels)

    with started() as browser:
        _shoot(browser, kept, _VIEW, top)
        _shoot(browser, played, "", plots)
    return [report, panels]


def _shoot(browser: Browser, files: Mapping[str, Figures], view: str, shoot: Callable[[Page], None]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "report.html"
        file.write_text(html_page(files, "surgekit, measured"))
        page = browser.new_page(viewport={"width": _WIDTH, "height": 900}, color_scheme="light")
        page.set_default_timeout(120_000)  # cores may be busy
        page.goto(f"{file.as_uri()}{view}")
        page.wait_for_selector("html[data-drawn]", state="attached")
        shoot(page)
        page.close()
