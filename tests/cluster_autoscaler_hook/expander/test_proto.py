"""The committed protobuf modules are what protoc makes of expander.proto."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster_autoscaler_hook.expander import expander_pb2
from tests.paths import ROOT

PROTO = "cluster_autoscaler_hook/expander/expander.proto"


def test_the_committed_modules_are_up_to_date(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools, which has protoc, is missing")
    update = request.config.getoption("--update-golden")
    out = ROOT if update else tmp_path
    assert protoc.main(["protoc", f"-I{ROOT}", f"--python_out={out}", f"--pyi_out={out}", PROTO]) == 0
    for suffix in ("_pb2.py", "_pb2.pyi"):
        name = PROTO.replace(".proto", suffix)
        assert (out / name).read_bytes() == (ROOT / name).read_bytes(), (
            "pytest --update-golden writes it anew"
        )


def test_the_service_has_the_name_that_the_caller_dials() -> None:
    service = expander_pb2.DESCRIPTOR.services_by_name["Expander"]
    assert service.full_name == "grpcplugin.Expander"
    assert [method.name for method in service.methods] == ["BestOptions"]
