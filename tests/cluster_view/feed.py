"""A server of one made-up cluster: the page as it is shipped, and a stream that a test fills and breaks."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import unquote, urlsplit

from cluster_view.model import Change, Explanation, Snapshot, apply

__all__ = ["Feed", "served"]

STATIC = Path(__file__).parents[2] / "cluster_view" / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


class Feed:
    def __init__(self, snapshot: Snapshot) -> None:
        self.url = ""
        self.explanations: dict[str, Explanation] = {}
        self.broken = False
        self._snapshot = snapshot
        self._lock = Lock()
        self._streams: list[queue.SimpleQueue[Change | None]] = []

    def push(self, change: Change) -> None:
        with self._lock:
            self._snapshot = apply(self._snapshot, change)
            for stream in self._streams:
                stream.put(change)

    def lose(self) -> None:
        """Ends all streams and refuses new ones until `broken` is False again."""
        with self._lock:
            self.broken = True
            for stream in self._streams:
                stream.put(None)

    def events(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        stream: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        with self._lock:
            self._streams.append(stream)
            snapshot = self._snapshot
        yield "state", snapshot
        while (change := stream.get()) is not None:
            yield "change", change


def _handler(feed: Feed) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            if path == "/events":
                self._stream()
            elif path.startswith("/explain/pod/"):
                self._explain(unquote(path.removeprefix("/explain/pod/")))
            else:
                self._file("index.html" if path == "/" else path.removeprefix("/static/"))

        def _stream(self) -> None:
            if feed.broken:
                self.send_error(503)
                return
            self._head(200, "text/event-stream")
            try:
                for event, data in feed.events():
                    self.wfile.write(f"event: {event}\ndata: {json.dumps(data)}\n\n".encode())
                    self.wfile.flush()
            except OSError:
                return  # the page has gone

        def _explain(self, pod: str) -> None:
            found = feed.explanations.get(pod)
            body = found or {"error": f"no decision about {pod} is kept"}
            self._head(200 if found else 404, "application/json")
            self.wfile.write(json.dumps(body).encode())

        def _file(self, name: str) -> None:
            file = STATIC / name
            if file.parent != STATIC or not file.is_file():
                self.send_error(404)
                return
            self._head(200, _TYPES[file.suffix])
            self.wfile.write(file.read_bytes())

        def _head(self, status: int, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Security-Policy", "default-src 'self'")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the tests say what is wrong."""

    return Handler


@contextmanager
def served(snapshot: Snapshot) -> Iterator[Feed]:
    feed = Feed(snapshot)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(feed))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    feed.url = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        yield feed
    finally:
        feed.lose()
        server.shutdown()
        thread.join()
        server.server_close()
