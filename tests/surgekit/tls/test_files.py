"""Certificates kept as files."""

from __future__ import annotations

import stat
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from surgekit.cli.certificates import app
from surgekit.tls import CertificateError, ensure
from tests.surgekit.tls.builders import HOSTS, NOW


class TestFiles:
    def test_keys_are_private_and_a_second_run_touches_nothing(self, tmp_path: Path) -> None:
        directory = tmp_path / "new" / "tls"
        assert [c.action for c in ensure(directory, HOSTS, ["kube-scheduler"], NOW)] == ["created"] * 3
        files = {p.name: p for p in directory.iterdir()}
        assert set(files) == {f"{n}.{e}" for n in ("ca", "tls", "kube-scheduler") for e in ("crt", "key")}
        for name, path in files.items():
            assert stat.S_IMODE(path.stat().st_mode) == (0o600 if name.endswith(".key") else 0o644)
        before = {name: path.stat().st_mtime_ns for name, path in files.items()}
        assert [c.action for c in ensure(directory, HOSTS, ["kube-scheduler"], NOW)] == ["kept"] * 3
        assert {name: path.stat().st_mtime_ns for name, path in files.items()} == before

    @pytest.mark.parametrize("lost", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
    def test_a_run_cut_short_is_put_right(self, tmp_path: Path, lost: str) -> None:
        ensure(tmp_path, HOSTS, [], NOW)
        (tmp_path / lost).unlink()
        ensure(tmp_path, HOSTS, [], NOW)
        assert [c.action for c in ensure(tmp_path, HOSTS, [], NOW)] == ["kept", "kept"]

    @pytest.mark.parametrize("name", ["ca", "tls", "../evil", "", "a/b", ".hidden"])
    def test_a_client_cannot_take_another_files_name(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(CertificateError, match="client name"):
            ensure(tmp_path, HOSTS, [name], NOW)
        assert list(tmp_path.iterdir()) == []

    def test_command_line(self, tmp_path: Path) -> None:
        arguments = ["files", str(tmp_path), "--host", "localhost", "--client", "me", "--json", "-"]
        result = CliRunner().invoke(app, arguments)
        assert [c["action"] for c in orjson.loads(result.stdout)] == ["created"] * 3
        assert CliRunner().invoke(app, ["files", str(tmp_path), "--host", "no_good"]).exit_code == 1
