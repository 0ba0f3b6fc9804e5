"""Serves the fake API server over HTTP, so that the real client can be tested with it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from surgekit.kube.client import ApiError, KubeUnreachable
from tests.fake_api_server.server import FakeApiServer, status_of

__all__ = ["serve"]


@contextmanager
def serve(fake: FakeApiServer) -> Iterator[tuple[str, int]]:
    """The address it listens on."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # whoever asked is gone
                self.close_connection = True

        def answer(self) -> None:
            url = urlsplit(self.path)
            query: dict[str, Any] = dict(parse_qsl(url.query))
            length = int(self.headers.get("Content-Length") or 0)
            body = orjson.loads(self.rfile.read(length)) if length else None
            try:
                if query.get("watch") == "true":
                    return self.watch(url.path, query)
                content_type = self.headers.get("Content-Type", "application/json")
                found = fake._json(self.command, url.path, query, body, content_type)
                self.send(201 if self.command == "POST" else 200, found)
            except ApiError as error:
                self.send(error.code, status_of(error))
            except KubeUnreachable:
                self.close_connection = True
            return None

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # the names http.server calls

        def watch(self, path: str, query: dict[str, Any]) -> None:
            batches = fake.stream(path, **query)
            self.begin(200, "Transfer-Encoding", "chunked")
            for lines in batches:
                data = b"".join(line + b"\n" for line in lines)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")

        def send(self, code: int, obj: Any) -> None:
            data = orjson.dumps(obj)
            self.begin(code, "Content-Length", str(len(data)))
            self.wfile.write(data)

        def begin(self, code: int, header: str, value: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header(header, value)
            if self.close_connection:  # as asked for: the client must not use it again
                self.send_header("Connection", "close")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield "127.0.0.1", server.server_address[1]
    finally:
        fake.cut_watches()
        server.shutdown()
        server.server_close()
        thread.join()
