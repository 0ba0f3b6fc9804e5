"""What a bench's JSON file says of its run."""

from __future__ import annotations

import sys

import pytest

from experiments.results.about import about


def test_the_command_says_what_was_played_and_not_where_it_lay(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["surgekit", "bench", "x", "--trace", "/home/me/azure2019/250", "--json", "/tmp/f", "--quick"]  # noqa: S108
    monkeypatch.setattr(sys, "argv", words)
    assert about()["command"] == "surgekit bench x --trace azure2019/250 --quick"
