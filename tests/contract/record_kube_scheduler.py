"""Record what the real kube-scheduler sends: `python -m tests.contract.record_kube_scheduler`.

Writes tests/contract/kube-scheduler/prioritize-<form>.json, with the scheduler's version in `version.txt`.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kwok.lab import Lab
from kwok.pods import create_pods

HERE = Path(__file__).parent / "kube-scheduler"


class Recorder(BaseHTTPRequestHandler):
    form = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        (HERE / f"prioritize-{self.form}.json").write_bytes(body)
        content = b"[]"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the written files are the result."""


def main() -> None:
    HERE.mkdir(exist_ok=True)
    with Lab.temporary("record", instant_pods=True) as lab:
        lab.add_nodes(3)
        (HERE / "version.txt").write_text(lab.kube.get("/version")["gitVersion"] + "\n")
        for form, capable in (("names", True), ("nodes", False)):
            file = HERE / f"prioritize-{form}.json"
            file.unlink(missing_ok=True)
            handler = type("Handler", (Recorder,), {"form": form})
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            entry = {
                "urlPrefix": f"http://127.0.0.1:{server.server_port}",
                "prioritizeVerb": "prioritize",
                "weight": 1,
                "nodeCacheCapable": capable,
            }
            lab.start_scheduler({"extenders": [entry]})
            create_pods(lab.kube, "default", 1, "250m", "512Mi", prefix=form)
            lab.wait_for(file.exists, "the recorded request")
            lab.stop_scheduler()
            server.shutdown()


if __name__ == "__main__":
    main()
