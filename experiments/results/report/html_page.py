"""Sections as one HTML page that needs no network: styles, scripts, plots and data are in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from experiments.results.checked_figures import About, UnknownBench, about_of, bench_of
from experiments.results.page import machine
from experiments.results.plot import Dots
from experiments.results.report.vega import specification
from experiments.results.section import Estimate, Figures, Section
from experiments.results.sections import SECTIONS, in_order, plain_section, section

__all__ = ["html_page"]

_HERE = Path(__file__).parent
_VENDOR = _HERE / "vendor"


@dataclass(frozen=True)
class _Shown:
    id: str
    section: Section
    about: About

    @property
    def plots(self) -> list[dict[str, Any]]:
        return [
            {
                "title": plot.title,
                "source": plot.source,
                "spec": specification(plot),
                "has_paper": isinstance(plot, Dots) and any(dot.paper for dot in plot.dots),
            }
            for plot in self.section.plots
        ]


def html_page(files: Mapping[str, Figures], title: str) -> str:
    """The page; `files` maps the name of a file to its content."""
    sections = {name: _section(name, figures) for name, figures in files.items()}
    shown = [
        _Shown(f"{_slug(sections[name].title)}-{number}", sections[name], about_of(files[name]))
        for number, name in enumerate(in_order(files), 1)
    ]
    libraries = [_Library.read(entry) for entry in _vendored()]
    scripts = [*(library.script for library in libraries), (_HERE / "page.js").read_text()]
    return _template().render(
        title=title,
        shown=shown,
        systems=list(dict.fromkeys(found.section.system for found in shown)),
        dates=sorted({found.about.date for found in shown}),
        style=Markup((_HERE / "page.css").read_text()),  # noqa: S704  # our own file
        scripts=[Markup(script) for script in scripts],  # noqa: S704  # ours, and files whose hashes are tested
        script_hashes=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
        libraries=libraries,
    )


def _section(name: str, figures: Figures) -> Section:
    try:
        return section(figures) if bench_of(figures) in SECTIONS else plain_section(figures)
    except UnknownBench as error:
        raise UnknownBench(f"{name}: {error}") from error


@dataclass(frozen=True)
class _Library:
    name: str
    version: str
    licence: str
    script: str

    @classmethod
    def read(cls, entry: Mapping[str, str]) -> _Library:
        licence = (_VENDOR / entry["licence_file"]).read_text()
        script = (_VENDOR / entry["file"]).read_text()
        # Its licence wants to be wherever it is; the line after it would name a file that is not there.
        code = re.sub(r"\n//# sourceMappingURL=\S+\s*$", "", script)
        name, version = entry["package"], entry["version"]
        return cls(name, version, entry["licence"], f"/*! {name} {version}\n{licence}*/\n{code}")


def _vendored() -> Sequence[Mapping[str, str]]:
    files: Sequence[Mapping[str, str]] = tomllib.loads((_VENDOR / "vendored.toml").read_text())["file"]
    return files


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "markdown": _markdown,
        "paragraphs": _paragraphs,
        "json_for_script": _json_for_script,
        "machine": machine,
    }
    environment.tests["estimate"] = lambda cell: isinstance(cell, Estimate)
    return environment.get_template("page.html")


def _json_for_script(value: Any) -> Markup:
    """JSON inside <script>: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026"))  # noqa: S704  # escaped above


@cache
def _renderer() -> MarkdownIt:
    """Markdown without HTML. Links lead to files beside docs/results.md, which are not beside this page."""
    renderer = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "html_inline"])
    renderer.add_render_rule("link_open", _no_link)
    renderer.add_render_rule("link_close", _no_link)
    return renderer


def _no_link(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: Any, _env: Any) -> str:
    if tokens[index].type == "link_close":
        return "</span>"
    target = str(tokens[index].attrs.get("href", ""))
    return f'<span class="reference" title="{escape(target)}">'


def _markdown(text: str) -> Markup:
    return Markup(_renderer().renderInline(text))  # noqa: S704  # HTML in the text is escaped


def _paragraphs(text: str) -> Markup:
    return Markup(_renderer().render(text))  # noqa: S704  # as above


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
