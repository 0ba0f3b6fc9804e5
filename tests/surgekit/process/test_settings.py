"""Every error names the key and the value."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_extender.settings import Settings
from surgekit.kube.quantity import QuantityError, parse
from surgekit.process.modes import Mode
from surgekit.process.settings import SettingsError, load


def test_file_then_environment_then_given(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("price_weight: 2\nprice_swing: 0.25\nmode: shadow\nclient_names: [a, b]\n")
    made = load(Settings, file, {"SURGEKIT_EXTENDER_PRICE_WEIGHT": "3", "HOME": "/"}, price_swing=0.75)
    assert (made.price_weight, made.price_swing, made.mode) == (3.0, 0.75, Mode.SHADOW)
    assert made.client_names == ("a", "b")
    assert made.assumed_pod_ttl_s == Settings().assumed_pod_ttl_s


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("price_weight: .nan", ["price_weight", "nan"]),
        ("price_weight: -1", ["price_weight", "-1"]),
        ("price_swing: 1.5", ["price_swing", "1.5"]),
        ("price_swing: much", ["price_swing", "'much'"]),
        ("max_body_bytes: 10.5", ["max_body_bytes", "10.5"]),
        ("mode: on", ["mode", "off, shadow, enforce"]),
        ("mod: shadow", ["mod", "known:"]),
        ("- a\n- b", ["keys and values"]),
        ("a: [", ["cannot be read"]),
    ],
)
def test_bad_settings_name_key_and_value(tmp_path: Path, content: str, names: list[str]) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(content)
    with pytest.raises(SettingsError) as raised:
        load(Settings, file, {})
    for name in names:
        assert name in str(raised.value)


def test_bad_environment_names_the_key() -> None:
    with pytest.raises(SettingsError, match="assumed_pod_ttl_s: 'soon' is not a number"):
        load(Settings, None, {"SURGEKIT_EXTENDER_ASSUMED_POD_TTL_S": "soon"})


@pytest.mark.parametrize(
    ("text", "value"),
    [("250m", 0.25), ("1.5Gi", 1.5 * 2**30), ("2k", 2000), ("1e3", 1000), (7, 7), ("0", 0), ("100u", 1e-4)],
)
def test_quantities(text: str | int, value: float) -> None:
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "-1", "1.2.3", "1 Gi", "Gi", "0x10", "NaN", "inf", "1e999", "3E"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize(
    "text", ["1" * 60_000, "1" * 60_000 + "x", "." * 60_000, "1." * 30_000, " " * 60_000 + "1", "\u0661"]
)
def test_a_long_text_is_no_quantity_and_that_is_found_at_once(text: str) -> None:
    """Read by a form with two ways to cut digits, the first of these took minutes."""
    with pytest.raises(QuantityError) as error:
        parse(text)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("junk", [None, True, b"\x800m", [], {"cpu": "1"}, [["1"]]])
def test_whatever_is_no_text_or_number_is_no_quantity(junk: object) -> None:
    """Invalid UTF-8 in a protobuf string arrives as bytes."""
    with pytest.raises(QuantityError):
        parse(junk)


@pytest.mark.parametrize("number", [10**5000, -1, float("nan"), float("inf"), True], ids=lambda _: "")
def test_numbers_no_machine_has_are_no_quantities(number: float) -> None:
    with pytest.raises(QuantityError):
        parse(number)
