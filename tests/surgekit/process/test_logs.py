"""A line holds what anybody wrote, but not all of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from scheduler_extender import opt_in
from surgekit.process import logs


@pytest.fixture
def configured() -> Iterator[None]:
    before = structlog.get_config()
    logs.configure("DEBUG")
    yield
    structlog.configure(**before)


def test_an_annotation_of_250_kb_is_not_logged_whole(
    configured: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "9" * 250_000 + "x"
    _, (complaint,) = opt_in.overrides({"surgekit.dev/price-weight": text}, {})
    log = structlog.wrap_logger(structlog.PrintLogger(sys.stderr))
    log.warning("annotation ignored", namespace="shop", pod="web", error=complaint)
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("round failed", name=text, names=[text] * 200, by_name={text: text})
    first, second = capsys.readouterr().err.splitlines()
    assert len(first) < 2000
    said = orjson.loads(first)
    assert (said["message"], said["pod"], said["level"]) == ("annotation ignored", "web", "warning")
    assert said["error"].startswith("annotation surgekit.dev/price-weight: '999")
    assert said["error"].endswith("is not a number in 0..1e+06, ignored")
    assert len(second) < 100_000
    assert "Traceback" in orjson.loads(second)["exception"]


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
surrogates = st.text(st.characters(codec=None))
values = st.recursive(
    scalars | surrogates | st.builds(object) | st.just(5000).map(lambda n: 10**n),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(surrogates, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(surrogates, values, max_size=3))
def test_whatever_the_values_a_line_can_be_written(event: dict[str, Any]) -> None:
    assert isinstance(orjson.loads(orjson.dumps(logs.bounded(None, "info", event))), dict)
