"""Raw access to the API server: JSON in, JSON out.

The official client finds the cluster and authenticates (kubeconfig, in-cluster token with refresh,
TLS). Its model objects are not used: building them dominates the cost of a busy watch.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import urlencode

import orjson
import urllib3
import yaml
from kubernetes import client, config
from kubernetes.stream import portforward

from surgekit.errors import UserError
from surgekit.kube.api_path import checked

__all__ = ["STRATEGIC_MERGE", "ApiError", "Kube", "KubeUnreachable", "NoCluster"]

Json = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_CONNECT_S, _READ_S = 5.0, 30.0
# The server ends a watch after its timeout. Silence for this much longer means that the connection is dead.
_WATCH_GRACE_S = 10.0


class KubeUnreachable(UserError):
    """The API server did not answer."""


class NoCluster(KubeUnreachable):
    """No configuration names an API server; the message says what to do."""


class ApiError(UserError):
    """The API server answered with an error status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code, self.reason, self.message = code, reason, message

    @property
    def overtaken(self) -> bool:
        """Whether the object is gone, changed or replaced by one of the same name: the watch will show it.

        A patch that carries the uid of an earlier object is not a conflict to the API server but invalid.
        """
        if self.code == 404:  # unless the API server has no such (sub)resource at all
            return "could not find the requested resource" not in self.message
        return self.code == 409 or (self.code == 422 and "metadata.uid" in self.message)


class Kube:
    """One API server, one identity. Safe to share between threads.

    Build paths with `api_path.Resource`. InvalidPath means that the client refused a path and sent nothing.
    """

    field_manager: ClassVar[str] = "surgekit"  # of the fields this process writes; a part has its own name

    def __init__(self, configuration: Any) -> None:
        # One connection per watch and a few for requests; urllib3 only warns past that.
        configuration.connection_pool_maxsize = 16
        self._configuration = configuration
        self._pool: urllib3.PoolManager = client.ApiClient(configuration).rest_client.pool_manager

    @classmethod
    def connect(cls, kubeconfig: Path | None = None, context: str | None = None) -> Kube:
        """Connect to the cluster in `kubeconfig`, else the pod's own, else the user's current context.

        `context` names another one than the current."""
        configuration = client.Configuration()
        if kubeconfig is None and context is None:
            try:
                config.load_incluster_config(client_configuration=configuration)
                return cls(configuration)
            except config.ConfigException:
                pass
        try:
            config.load_kube_config(
                config_file=str(kubeconfig) if kubeconfig else None,
                context=context,
                client_configuration=configuration,
            )
        except (config.ConfigException, yaml.YAMLError, OSError) as error:
            tried = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
            raise NoCluster(
                f"no cluster to talk to, {tried} cannot be used ({' '.join(str(error).split())}): "
                "name a kubeconfig with --kubeconfig or KUBECONFIG; `surgekit lab up` makes a cluster to try"
            ) from error
        return cls(configuration)

    @property
    def host(self) -> str:
        return cast(str, self._configuration.host)

    def get(self, path: str, **query: str | int | bool) -> Json:
        return self._json("GET", path, query)

    def list_all(self, path: str, **query: str | int | bool) -> tuple[list[Json], str]:
        """Fetch all items in pages; return them and the resourceVersion to watch from.

        Each item gets the list's apiVersion and kind, so that it looks as in a watch.
        """
        page = self.get(path, limit=500, **query)
        items = _with_kind(page)
        while token := page["metadata"].get("continue"):
            page = self.get(path, limit=500, **query, **{"continue": token})
            items += _with_kind(page)
        return items, page["metadata"]["resourceVersion"]

    def create(self, path: str, body: Json, **query: str | int | bool) -> Json:
        return self._json("POST", path, query, body)

    def replace(self, path: str, body: Json) -> Json:
        return self._json("PUT", path, {}, body)

    def patch(
        self, path: str, body: Json | list[Json], content_type: str = MERGE_PATCH, **query: str | int | bool
    ) -> Json:
        return self._json("PATCH", path, query, body, content_type)

    def delete(self, path: str, body: Json | None = None, **query: str | int | bool) -> Json:
        return self._json("DELETE", path, query, body)

    def stream(self, path: str, **query: str | int | bool) -> Iterator[list[bytes]]:
        """Yield the lines of a watch, in the batches in which they arrive."""
        read_s = float(query["timeoutSeconds"]) + _WATCH_GRACE_S
        response = self._request("GET", path, query, read_s=read_s)
        try:
            pending = b""
            for chunk in response.stream(1 << 18, decode_content=True):
                *lines, pending = (pending + chunk).split(b"\n")
                if lines:
                    yield lines
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeUnreachable(f"watch {path} broke off: {error}") from error
        finally:
            response.close()

    def port_forward(self, namespace: str, pod: str, port: int) -> socket.socket:
        """Open a socket to a port of a pod, through the API server and the pod's kubelet."""
        core = client.CoreV1Api(client.ApiClient(self._configuration))
        try:
            forward = portforward(
                core.connect_get_namespaced_pod_portforward, pod, namespace, ports=str(port)
            )
        except (client.ApiException, OSError) as error:
            said = getattr(error, "reason", None) or error
            raise KubeUnreachable(f"port-forward to {namespace}/{pod}: {said}") from error
        found = socket.socket(fileno=forward.socket(port).detach())  # a real one, which TLS can wrap
        found.settimeout(_CONNECT_S)
        return found

    def _json(
        self,
        method: str,
        path: str,
        query: dict[str, str | int | bool],
        body: Any = None,
        content_type: str = "application/json",
    ) -> Json:
        response = self._request(method, path, query, body, content_type, read_s=_READ_S)
        raw = _read_all(response, f"{method} {path}")
        try:
            answer = orjson.loads(raw)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):  # half an answer, or a page of some proxy in between
            raise KubeUnreachable(f"{method} {path}: the answer is no JSON object: {_beginning(raw)}")
        return answer

    def _request(
        self,
        method: str,
        path: str,
        query: dict[str, str | int | bool],
        body: Any = None,
        content_type: str = "",
        *,
        read_s: float,
    ) -> urllib3.BaseHTTPResponse:
        # Where a request names no field manager, the API server takes the agent's name.
        headers = {"Accept": "application/json", "User-Agent": self.field_manager}
        if token := self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
        if body is not None:
            headers["Content-Type"] = content_type
        words = {k: str(v).lower() if isinstance(v, bool) else v for k, v in query.items()}
        url = self.host + checked(path) + (f"?{urlencode(words)}" if words else "")
        try:
            response = self._pool.request(
                method,
                url,
                headers=headers,
                body=orjson.dumps(body) if body is not None else None,
                preload_content=False,
                retries=False,
                timeout=urllib3.Timeout(connect=_CONNECT_S, read=read_s),
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubeUnreachable(f"{method} {url}: {error}") from error
        if response.status < 400:
            return response
        raw = _read_all(response, f"{method} {path}")
        try:
            status = orjson.loads(raw)
        except orjson.JSONDecodeError:
            status = None
        if not isinstance(status, dict):
            raise ApiError(response.status, "", _beginning(raw))
        raise ApiError(response.status, status.get("reason", ""), status.get("message", ""))


def _read_all(response: urllib3.BaseHTTPResponse, request: str) -> bytes:
    try:
        return response.read()
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise KubeUnreachable(f"{request} broke off: {error}") from error
    finally:
        response.release_conn()


def _beginning(raw: bytes) -> str:
    return raw[:200].decode(errors="replace")


def _with_kind(page: Json) -> list[Json]:
    kind = {"apiVersion": page.get("apiVersion"), "kind": str(page.get("kind")).removesuffix("List")}
    return [kind | item for item in page.get("items") or ()]
