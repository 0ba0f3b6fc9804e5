"""Files of others in our repository: known, licensed, and what was published."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest

from experiments.results import report

VENDOR = Path(report.__file__).parent / "vendor"
FILES = tomllib.loads((VENDOR / "vendored.toml").read_text())["file"]


def test_each_file_is_recorded() -> None:
    recorded = {entry[key] for entry in FILES for key in ("file", "licence_file")} | {"vendored.toml"}
    assert {file.name for file in VENDOR.iterdir()} == recorded


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: entry["package"])
def test_it_is_what_was_recorded(entry: dict[str, str]) -> None:
    content = (VENDOR / entry["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    assert "Redistribution and use" in (VENDOR / entry["licence_file"]).read_text()
    assert b"</script" not in content.lower(), "it is put into an element <script>"


@pytest.mark.parametrize("entry", FILES, ids=lambda entry: entry["package"])
def test_it_is_what_npm_has_published(entry: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no npm")
    wanted = f"{entry['package']}@{entry['version']}"
    argv = ["npm", "pack", "--silent", "--ignore-scripts", wanted]
    try:
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm does not answer")
    if done.returncode:
        pytest.skip(f"npm cannot be asked: {done.stderr.strip()[-200:]}")
    (package,) = tmp_path.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    assert entry["integrity"] == f"sha512-{digest}"
    with tarfile.open(package) as opened:
        for path, ours in ((entry["path"], entry["file"]), ("package/LICENSE", entry["licence_file"])):
            published = opened.extractfile(path)
            assert published is not None
            assert published.read() == (VENDOR / ours).read_bytes()
