"""The OCI writer: what it writes can be read back, is what its digests say, and never varies."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kwok.errors import ImageError
from kwok.images import oci

REFERENCE = "localhost:5000/try:1"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program"
    file.write_bytes(b"\x7fELF" + bytes(5000))
    file.chmod(0o755)
    return file


def write(program: Path, target: Path) -> Path:
    layer, notes = target.with_suffix(".layer"), target.with_suffix(".notes")
    notes.write_text("read me")
    oci.write_layer({"/program": program, "/etc/notes": notes, "/etc": None}, layer)
    settings = oci.Settings(["/program", "--run"], path="/bin")
    oci.write_image(REFERENCE, [layer], settings, target)
    return target


def read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        return {entry.name: opened.extractfile(entry).read() for entry in opened}  # type: ignore[union-attr]  # files


def blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    content = files["blobs/sha256/" + descriptor["digest"].removeprefix("sha256:")]
    assert len(content) == descriptor["size"]
    return content


def test_what_is_written_can_be_read_back(program: Path, tmp_path: Path) -> None:
    files = read(write(program, tmp_path / "image.tar"))
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == REFERENCE
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "1"
    manifest = json.loads(blob(files, entry))
    config = json.loads(blob(files, manifest["config"]))
    (layer,) = manifest["layers"]
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer["digest"]]}
    assert len(config["history"]) == 1
    assert config["config"] == {
        "Entrypoint": ["/program", "--run"],
        "Env": ["PATH=/bin"],
        "User": "65532:65532",
        "WorkingDir": "/",
    }
    content = tmp_path / "read.tar"
    content.write_bytes(blob(files, layer))
    with tarfile.open(content) as opened:
        entries = {entry.name: entry for entry in opened}
        assert opened.extractfile("program").read() == program.read_bytes()  # type: ignore[union-attr]  # a file
    assert {name: entry.mode for name, entry in entries.items()} == {
        "etc": 0o755,
        "etc/notes": 0o644,
        "program": 0o755,
    }
    assert list(entries) == sorted(entries)  # a directory before what lies in it
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}


def test_blobs_are_named_by_their_content(program: Path, tmp_path: Path) -> None:
    files = read(write(program, tmp_path / "image.tar"))
    blobs = {name: content for name, content in files.items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    for name, content in blobs.items():
        assert name == "blobs/sha256/" + hashlib.sha256(content).hexdigest()


def test_same_input_same_bytes(program: Path, tmp_path: Path) -> None:
    first = write(program, tmp_path / "one.tar").read_bytes()
    os.utime(program, (1, 1))
    assert write(program, tmp_path / "two.tar").read_bytes() == first
    program.write_bytes(b"other")
    assert write(program, tmp_path / "three.tar").read_bytes() != first


def test_a_layout_becomes_the_same_archive(program: Path, tmp_path: Path) -> None:
    """As builders write them: a directory, whose index has a name that containerd does not read."""
    written = write(program, tmp_path / "image.tar")
    layout = tmp_path / "layout"
    with tarfile.open(written) as opened:
        opened.extractall(layout, filter="data")
    index = json.loads((layout / "index.json").read_text())
    index["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (layout / "index.json").write_text(json.dumps(index))
    oci.pack(layout, REFERENCE, tmp_path / "packed.tar")
    assert read(tmp_path / "packed.tar") == read(written)


def test_an_unknown_machine_is_refused(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oci.platform, "machine", lambda: "vax")  # type: ignore[attr-defined]
    with pytest.raises(ImageError, match="vax"):
        write(program, tmp_path / "image.tar")
