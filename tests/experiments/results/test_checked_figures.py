"""A file of results may come from anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from experiments.results.checked_figures import UnknownBench, about_of, bench_of, escaped, read_figures
from experiments.results.sections import SECTIONS, section
from tests.commands import Commands
from tests.experiments.results.kept import kept_figures

ABOUT = {"command": "surgekit bench extender", "date": "2026-11-18", "cores": 2, "memory_gib": 24}


def test_what_benches_wrote_is_read() -> None:
    for figures in kept_figures().values():
        assert about_of(figures).command.startswith("surgekit bench ")
        assert section(figures).title


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not JSON"),
        ("[1, 2", "is not JSON"),
        ('{"a": NaN}', "NaN is no number"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "without `about`"),
        ("{}", "without `about`"),
        ('{"about": 7}', "Expected `object`"),
        ('{"about": {}}', "missing required field `command`"),
        (json.dumps({"about": ABOUT | {"command": "rm -rf /"}}), "command"),
        (json.dumps({"about": ABOUT | {"command": "surgekit bench x\nHi"}}), "command"),
        (json.dumps({"about": ABOUT | {"command": "surgekit bench 'x"}}), "No closing quotation"),
        (json.dumps({"about": ABOUT | {"date": "<b>"}}), "date"),
        (json.dumps({"about": ABOUT | {"commit": "</script>"}}), "commit"),
        (json.dumps({"about": ABOUT, "nodes": 5}), "not the figures of bench extender: KeyError: 'ratio'"),
        (json.dumps({"about": ABOUT, "nodes": 5, "ratio": "high"}), "not the figures of bench extender"),
    ],
)
def test_anything_else_is_one_line(content: str, said: str, tmp_path: Path, commands: Commands) -> None:
    file = tmp_path / "figures.json"
    file.write_text(content)
    done = commands.run("report", str(file), cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {file}")
    assert said in line
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, commands: Commands) -> None:
    done = commands.run("report", "nowhere.json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "error: nowhere.json: No such file or directory\n")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(bench=st.sampled_from(sorted(SECTIONS)), data=st.data())
def test_a_section_of_other_figures_is_a_section_or_refused(bench: str, data: st.DataObject) -> None:
    kept = [f for f in kept_figures().values() if bench_of(f) == bench]
    figures: dict[str, Any] = dict(data.draw(st.sampled_from(kept))) if kept else {}
    if keys := sorted(figures.keys() - {"about"}):
        figures[data.draw(st.sampled_from(keys))] = data.draw(JSON)
    figures["about"] = ABOUT | {"command": f"surgekit bench {bench}"}
    try:
        found = section(figures)
    except UnknownBench:
        return
    assert {len(row) for row in found.rows} <= {len(found.columns)}


@given(st.text())
@example("__0__")
def test_a_name_is_shown_as_it_is_and_nothing_else(name: str) -> None:
    """In a paragraph after a letter, as sections have it: it cannot begin a heading or a list there."""
    rendered = MarkdownIt("commonmark", {"html": False}).enable("table").parseInline(f"a{escaped(name)}")
    (inline,) = rendered
    kinds = {child.type for child in inline.children or []}
    assert kinds <= {"text"}
    shown = "".join(child.content for child in inline.children or [])
    assert shown == f"a{' '.join(name.split())}".rstrip("\\") or "\x00" in name


def test_what_is_read_is_finite(tmp_path: Path) -> None:
    file = tmp_path / "f.json"
    file.write_text('{"a": 1e999}')
    with pytest.raises(UnknownBench, match="1e999"):
        read_figures(file)
