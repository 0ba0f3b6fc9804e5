"""A gunicorn worker that tells the application whose certificate the peer has, and its headers unjoined.

gunicorn hands over neither: its environ has the headers of one name joined by commas. A thread serves a
connection for as long as it lasts, since kube-apiserver keeps a few open and asks on them again and again.
"""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from typing import Any

from gunicorn import http, util
from gunicorn.http import wsgi
from gunicorn.workers.sync import SyncWorker

from surgekit.answering_server import common_name
from surgekit.certificates import ReloadingServerContext

__all__ = ["HEADERS", "PEER", "PeerWorker"]

# Keys of the environ: the common name of the peer's verified certificate (or None); [(name, value)].
PEER, HEADERS = "surgekit.peer", "surgekit.headers"
CONNECTIONS_AT_MOST = 200
HANDSHAKE_S = 5.0
# Longer than kube-apiserver keeps an idle connection (90 s), so that it is never told of a closed one
# while it writes. Who shows no certificate is a probe or a scrape, and comes back with a new connection.
IDLE_S, STRANGER_IDLE_S = 300.0, 10.0


class PeerWorker(SyncWorker):  # type: ignore[misc]  # gunicorn has no types
    """`self.wsgi` is a hpa_replacement.adapter.server.Application."""

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.init_lane()

    def init_lane(self) -> None:
        self._connections = threading.BoundedSemaphore(CONNECTIONS_AT_MOST)
        self._tls: ReloadingServerContext = self.wsgi.tls

    def accept(self, listener: Any) -> None:
        client, address = listener.accept()
        if not self._connections.acquire(blocking=False):
            client.close()
            return
        threading.Thread(target=self._serve, args=(listener, client, address), daemon=True).start()

    def _serve(self, listener: Any, client: socket.socket, address: Any) -> None:
        try:
            client.settimeout(HANDSHAKE_S)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = self._tls.context.wrap_socket(client, server_side=True)
            peer = common_name(client)
            client.settimeout(STRANGER_IDLE_S if peer is None else IDLE_S)
            parser = http.get_parser(self.cfg, client, address)
            for request in parser:
                if not self._answer(request, client, address, listener.getsockname(), peer):
                    break
        except (StopIteration, http.errors.NoMoreData):
            pass
        except OSError as error:  # ssl.SSLError is one: a client gone, too slow, or not one we trust
            self.log.debug("connection ended: %s", error)
        except Exception as error:  # a request that is none: gunicorn answers with what is wrong
            self.handle_error(None, client, address, error)
        finally:
            util.close(client)
            self._connections.release()

    def _answer(self, request: Any, client: socket.socket, address: Any, server: Any, peer: Any) -> bool:
        """False when the connection is to be closed."""
        response, environ = wsgi.create(request, client, address, server, self.cfg)
        environ["wsgi.multithread"] = True
        environ[PEER], environ[HEADERS] = peer, request.headers
        if not self.alive:
            response.force_close()
        with closing(self.wsgi(environ, response.start_response)) as items:
            for item in items:
                response.write(item)
        response.close()
        return not response.should_close()
