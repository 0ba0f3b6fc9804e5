"""Run a real Prometheus as a process of a lab. Its targets are in files that may change while it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from kwok.lab import Lab
from kwok.ports import answers_ready
from kwok.processes import Process

__all__ = ["PROMETHEUS", "set_targets", "start"]

PROMETHEUS = "prometheus"
Targets = Mapping[str, Sequence[str]]  # job -> host:port


def start(lab: Lab, targets: Targets, scrape_interval_s: float = 1.0, address: str = "127.0.0.1") -> Process:
    """Scrape /metrics of `targets`; the API is at http://127.0.0.1:<port of the returned process>.

    Other processes may add theirs in files `targets-*.json` (file_sd) beside `targets.json`.
    With the address 0.0.0.0 pods on real nodes reach it too."""
    directory = lab.directory / PROMETHEUS
    directory.mkdir(exist_ok=True)
    set_targets(lab, targets)
    interval = f"{round(scrape_interval_s * 1000)}ms"
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        # A single job for Prometheus; the file sets the job label of each target.
        "scrape_configs": [
            {"job_name": "lab", "file_sd_configs": [{"files": [str(directory / "targets*.json")]}]}
        ],
    }
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    port = lab.free_port()
    argv: list[str | Path] = [
        lab.binaries.path(PROMETHEUS),
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}:{port}",
        # How soon changed targets are applied; the default is 5 s.
        "--scrape.discovery-reload-interval=1s",
        "--log.level=warn",
    ]
    return lab.start(PROMETHEUS, argv, ready=lambda: answers_ready(port, "/-/ready"), port=port)


def set_targets(lab: Lab, targets: Targets) -> None:
    """Scrape exactly these from now on; a running Prometheus notices within one or two seconds."""
    groups = [{"targets": list(hosts), "labels": {"job": job}} for job, hosts in targets.items()]
    file = lab.directory / PROMETHEUS / "targets.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(groups))
    new.replace(file)  # readers never see half a file
