"""Record what the real kube-scheduler sends: `python -m tests.contract.record_kube_scheduler`.

Writes tests/contract/kube-scheduler/<verb>-<form>.json, with the scheduler's version in `version.txt`.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

from kwok.lab import Lab
from kwok.pods import create_pods

HERE = Path(__file__).parent / "kube-scheduler"


class Recorder(BaseHTTPRequestHandler):
    form = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        verb = self.path.strip("/")
        (HERE / f"{verb}-{self.form}.json").write_bytes(body)
        args = orjson.loads(body)
        answer: Any = []
        if verb == "filter":
            answer = {"Nodes": args.get("Nodes"), "NodeNames": args.get("NodeNames")}
        content = orjson.dumps(answer)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Quiet: the files say it all."""


def main() -> None:
    HERE.mkdir(exist_ok=True)
    with Lab.temporary("record", instant_pods=True) as lab:
        lab.add_nodes(3)
        (HERE / "version.txt").write_text(lab.kube.get("/version")["gitVersion"] + "\n")
        for form, capable in (("names", True), ("nodes", False)):
            handler = type("Handler", (Recorder,), {"form": form})
            server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            entry = {
                "urlPrefix": f"http://127.0.0.1:{server.server_port}",
                "prioritizeVerb": "prioritize",
                "filterVerb": "filter",
                "weight": 1,
                "nodeCacheCapable": capable,
            }
            lab.start_scheduler({"extenders": [entry]})
            create_pods(lab.kube, "default", 1, "250m", "512Mi", prefix=form)
            files = [HERE / f"{verb}-{form}.json" for verb in ("filter", "prioritize")]
            lab.wait_for(lambda files=files: all(f.exists() for f in files), "recorded requests")  # type: ignore[misc]
            lab.stop_scheduler()
            server.shutdown()


if __name__ == "__main__":
    main()
