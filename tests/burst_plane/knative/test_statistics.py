"""What we say is what Knative's own server for statistics understands."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from burst_plane.knative.link import AutoscalerLink
from burst_plane.knative.stat_pb2 import WireStatMessages
from burst_plane.knative.statistics import Excess, encoded
from kwok.binaries import Binaries
from kwok.ports import free_ports

FILE = Path(__file__).parent / "recorded" / "understood.json"
EXCESS = [
    Excess("shop", "resize-00001", 2.5, 7),
    Excess("shop", "idle-00001", 0.0, 0.0),
    Excess("other", "web-00012", 0.125, 0.0),
    Excess("other", "rps-00001", 0.0, 3),
]


@pytest.mark.lab
def test_recorded_messages_are_what_knative_understands(request: pytest.FixtureRequest) -> None:
    """Builds Knative's package; `--update-golden` renews the record."""
    if not request.config.getoption("--update-golden"):
        pytest.skip("builds 300 packages: only with --update-golden")
    (port,) = free_ports(1)
    program: list[str | Path] = [Binaries().path("knative-statistics"), f"127.0.0.1:{port}"]
    tried = threading.Event()
    link = AutoscalerLink(f"127.0.0.1:{port}", "burst-0", lambda _: tried.set())
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link.start()
            while not tried.wait(0.2) or link.error:
                tried.clear()
                link.say(EXCESS)
            understood = [json.loads(server.stdout.readline()) for _ in range(3)]
        finally:
            link.stop()
            server.kill()
    record = {"sent": encoded("burst-0", EXCESS).hex(), "understood": understood}
    FILE.write_text(json.dumps(record, indent=1) + "\n")


def test_the_message_is_the_recorded_one() -> None:
    recorded = json.loads(FILE.read_text())
    assert encoded("burst-0", EXCESS).hex() == recorded["sent"]
    assert [(of["Key"]["Namespace"], of["Key"]["Name"]) for of in recorded["understood"]] == [
        ("shop", "resize-00001"), ("other", "web-00012"), ("other", "rps-00001"),
    ]  # fmt: skip
    for said, of in zip([e for e in EXCESS if e.is_any], recorded["understood"], strict=True):
        stat = {key: value for key, value in of["Stat"].items() if value}
        wanted = {
            "pod_name": "burst-0",
            "average_concurrent_requests": said.concurrency,
            "request_count": said.requests,
        }
        assert stat == {key: value for key, value in wanted.items() if value}


def test_revisions_without_excess_are_left_out() -> None:
    """A zero of ours would stand for pods that the autoscaler could not ask."""
    said = WireStatMessages.FromString(encoded("p", [Excess("shop", "idle-00001", 0.0, 0.0)]))
    assert list(said.messages) == []
