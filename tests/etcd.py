"""What tests ask a lab's etcd for directly, through its JSON gateway."""

from __future__ import annotations

import orjson
import urllib3
import yaml

from kwok.lab import Lab

__all__ = ["compact_etcd"]


def compact_etcd(lab: Lab, version: str) -> None:
    """Make etcd forget what was before `version`, as it does every five minutes in production."""
    documents = yaml.safe_load_all((lab.directory / "kwokctl.yaml").read_text())
    (options,) = [d["options"] for d in documents if d["kind"] == "KwokctlConfiguration"]
    answer = urllib3.request(
        "POST",
        f"http://127.0.0.1:{options['etcdPort']}/v3/kv/compaction",
        body=orjson.dumps({"revision": version, "physical": True}),
    )
    assert answer.status == 200, answer.data
