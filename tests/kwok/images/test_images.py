"""Images of static binaries: built once for one content, whatever the names."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwok import images
from kwok.errors import ImageError


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    given = tmp_path / "bin"
    given.mkdir()
    for binary in ("pause", "function-server"):
        (given / binary).write_text(binary)
        (given / binary).chmod(0o755)
    return {"SURGEKIT_CACHE_DIR": str(tmp_path), "SURGEKIT_BIN_DIR": str(given)}


def test_the_same_binary_is_packed_once(environ: dict[str, str], tmp_path: Path) -> None:
    first = images.build("pause", environ)
    made = first.stat().st_mtime_ns
    assert images.build("pause", environ) == first
    assert first.stat().st_mtime_ns == made
    (tmp_path / "bin" / "pause").write_text("changed")
    assert images.build("pause", environ) != first
    assert [p.name for p in first.parent.iterdir() if p.suffix not in (".tar", ".lock")] == []


def test_an_image_has_its_own_name(environ: dict[str, str]) -> None:
    assert images.reference("pause").encode() in images.build("pause", environ).read_bytes()
    assert len({images.reference(name) for name in images.NAMES}) == len(images.NAMES)


def test_an_unknown_image_is_refused() -> None:
    with pytest.raises(ImageError, match=r"'docker' is not known: .*pause"):
        images.build("docker")
