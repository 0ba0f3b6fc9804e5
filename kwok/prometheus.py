"""A real Prometheus as a process of a lab; what it scrapes is in a file, which may change while it runs."""

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


def start(lab: Lab, targets: Targets, scrape_interval_s: float = 1.0) -> Process:
    """Scrape /metrics of `targets`; the API is at http://127.0.0.1:<the returned process's port>."""
    directory = lab.directory / PROMETHEUS
    directory.mkdir(exist_ok=True)
    set_targets(lab, targets)
    interval = f"{round(scrape_interval_s * 1000)}ms"
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        # One job to Prometheus: the file gives each target the job that it belongs to.
        "scrape_configs": [
            {"job_name": "lab", "file_sd_configs": [{"files": [str(directory / "targets.json")]}]}
        ],
    }
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    port = lab.free_port()
    argv: list[str | Path] = [
        lab.binaries.path(PROMETHEUS),
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        # How long a change of targets waits to be taken up; the default is 5 s.
        "--scrape.discovery-reload-interval=1s",
        "--log.level=warn",
    ]
    return lab.start(PROMETHEUS, argv, ready=lambda: answers_ready(port, "/-/ready"), port=port)


def set_targets(lab: Lab, targets: Targets) -> None:
    """From now on these are scraped, and no others; a running Prometheus sees it within a second or two."""
    groups = [{"targets": list(hosts), "labels": {"job": job}} for job, hosts in targets.items()]
    file = lab.directory / PROMETHEUS / "targets.json"
    new = file.with_suffix(".new")
    new.write_text(json.dumps(groups))
    new.replace(file)  # never half a file
