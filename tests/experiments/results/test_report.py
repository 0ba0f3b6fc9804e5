"""The page of `surgekit report`, as a person's browser shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from experiments.results.report.html_page import html_page
from tests.browser import quiet_page
from tests.commands import Commands
from tests.experiments.results.kept import kept_figures
from tests.experiments.results.test_page import ABOUT, FIGURES, RATIO
from tests.paths import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SMALL = ("escra-quick.json", "extender.json", "knee-search.json", "pulsenet-starts.json")
HOSTILE = '</script><script>document.title = "taken"</script><img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html_page(kept_figures(), "surgekit, measured"))
    return file


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four results: a browser on busy cores draws these sooner."""
    file = tmp_path_factory.mktemp("small") / "report.html"
    file.write_text(html_page({name: kept_figures()[name] for name in SMALL}, "surgekit, measured"))
    return file


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with quiet_page(browser) as page:
        yield page


def opened(page: Page, file: Path, view: str = "") -> Page:
    page.goto(f"{file.as_uri()}{view}")
    page.wait_for_selector("html[data-drawn]", state="attached")
    return page


def test_it_opens_without_a_network_and_draws_every_plot(page: Page, report: Path) -> None:
    opened(page, report)
    figures = page.locator("figure")
    assert figures.count() > 40
    assert page.locator("figure .plot svg").count() == figures.count()
    assert page.locator("section.result").count() == len(kept_figures())


def test_every_result_has_its_command_its_date_and_its_machine(report: Path) -> None:
    content = report.read_text()
    for figures in kept_figures().values():
        assert figures["about"]["command"] in content.replace("&#39;", "'")
        assert figures["about"]["date"] in content


def test_the_markdown_page_has_the_same_cells(page: Page, report: Path) -> None:
    """One section, written twice."""
    opened(page, report)
    shown = page.locator("section.result td b").all_inner_texts()
    written = (ROOT / "docs" / "results.md").read_text()
    assert len(shown) > 100
    assert [value for value in shown if f"| {value.removeprefix('▾ ')} (" not in written] == []


def test_what_is_shown_is_in_the_address_and_comes_back_from_it(page: Page, small: Path) -> None:
    opened(page, small)
    page.click("button[data-system=Escra]")
    assert page.evaluate("location.hash") == "#systems=Escra"
    page.click("button[data-system=PulseNet]")
    page.click("#behind")
    address = page.evaluate("location.hash")
    assert address == "#systems=Escra%2CPulseNet&behind=1"
    seen = visible(page)
    assert {title.partition(":")[0] for title in seen} == {"Escra", "PulseNet"}

    opened(page, small)  # elsewhere
    page.goto("about:blank")
    opened(page, small, address)
    assert visible(page) == seen
    assert page.get_attribute("#behind", "aria-pressed") == "true"

    page.click("#behind")
    page.click("button[data-system=Escra]")
    page.click("button[data-system=PulseNet]")
    assert page.evaluate("location.hash") in ("", "#"), "nothing chosen is all"
    assert len(visible(page)) == len(SMALL)


def test_a_link_to_a_result_leads_to_it(page: Page, small: Path) -> None:
    opened(page, small)
    last = page.locator("section.result").last
    last.locator("h2 a").click()
    address = page.evaluate("location.hash")
    assert address == f"#at={last.get_attribute('id')}"
    page.goto("about:blank")
    opened(page, small, address)
    assert page.evaluate("scrollY") > 1000


@pytest.mark.parametrize("address", ["#systems=Nobody&theme=loud&at=%3Cimg%3E", "#%%%", "#systems="])
def test_an_address_of_something_else_shows_all(page: Page, small: Path, address: str) -> None:
    opened(page, small, address)
    assert len(visible(page)) == len(SMALL)


def test_the_theme_switches_and_is_remembered_in_the_address(page: Page, small: Path) -> None:
    opened(page, small)
    light, light_letters = background(page), letters(page)
    page.click("#theme")
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: dark"
    dark = background(page)
    assert sum(light) > 600
    assert sum(dark) < 200
    assert letters(page) != light_letters
    assert page.evaluate("location.hash") == "#theme=dark"
    page.emulate_media(media="print")
    assert background(page)[0] in (0, 255), "paper has no colour of ours"
    assert letters(page) == light_letters, "plots follow, too"


def test_names_in_a_file_are_text(page: Page, tmp_path: Path) -> None:
    arms = {
        HOSTILE: RATIO,
        "[x](javascript:alert(1))": RATIO,
        "![x](http://127.0.0.1/x.png)": RATIO,
        "a|b": RATIO,
    }
    figures: dict[str, Any] = {"about": ABOUT | {"command": "surgekit bench kneescale --simulated"}}
    arm = dict.fromkeys(("replicas", "latency", "requests"), RATIO) | {"better_in_both": True}
    figures |= {"ratio_over": {HOSTILE: arms}, "front": {HOSTILE: dict.fromkeys(arms, arm)}}
    other = {"about": ABOUT | {"command": "surgekit bench adapter"}, HOSTILE: HOSTILE}
    file = tmp_path / "report.html"
    file.write_text(html_page({"a.json": figures, "b.json": other, "c.json": FIGURES}, HOSTILE))
    opened(page, file)
    assert page.title() == HOSTILE
    assert page.locator("section.result").count() == 3
    assert page.locator("img, main a[href^=javascript], main a[href^=http]").count() == 0
    assert page.locator("section.result script:not([type='application/json'])").count() == 0
    assert HOSTILE in page.locator("section.result").first.locator("tbody th").first.inner_text()
    assert page.locator("tbody th", has_text="a|b").count() == 1


def test_a_script_that_is_not_ours_does_not_run(browser: Browser, small: Path, tmp_path: Path) -> None:
    """The page's policy holds even if something came through."""
    file = tmp_path / "report.html"
    file.write_text(small.read_text().replace("<main>", "<main><script>document.title = 'taken'</script>"))
    with pytest.raises(AssertionError, match="Content Security Policy"), quiet_page(browser) as page:
        taken = opened(page, file).title() == "taken"
    assert not taken


def test_the_command_writes_it(tmp_path: Path, commands: Commands) -> None:
    file = tmp_path / "knee-search.json"
    file.write_text(json.dumps(FIGURES))
    done = commands.run("report", str(file), "--output", "shared/page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wrote shared/page.html: 1 result, 0.8 MB\n"
    assert "KneeScale: the search alone" in (tmp_path / "shared" / "page.html").read_text()


def visible(page: Page) -> list[str]:
    return [title for title in page.locator("section.result:visible h2").all_inner_texts() if title]


def background(page: Page) -> list[int]:
    found = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(float(part)) for part in found.partition("(")[2].rstrip(")").split(",")[:3]]


def letters(page: Page) -> Any:
    """The colour of a plot's."""
    return page.evaluate("getComputedStyle(document.querySelector('.plot svg text')).fill")
