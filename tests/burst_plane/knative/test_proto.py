"""The committed protobuf modules are what protoc makes of stat.proto."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import ROOT

PROTO = "burst_plane/knative/stat.proto"


def test_the_committed_modules_are_up_to_date(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools, which has protoc, is missing")
    out = ROOT if request.config.getoption("--update-golden") else tmp_path
    assert protoc.main(["protoc", f"-I{ROOT}", f"--python_out={out}", f"--pyi_out={out}", PROTO]) == 0
    for suffix in ("_pb2.py", "_pb2.pyi"):
        name = PROTO.replace(".proto", suffix)
        assert (out / name).read_bytes() == (ROOT / name).read_bytes(), (
            "pytest --update-golden writes it anew"
        )
