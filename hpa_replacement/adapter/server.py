"""Serves the metrics APIs under gunicorn: paths, access checks, errors. Health has a port of its own."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import flask
import orjson
import structlog
import werkzeug.exceptions

from hpa_replacement.adapter import discovery, selectors, values
from hpa_replacement.adapter.authentication import (
    FrontProxy,
    FrontProxyError,
    TokenReviews,
    forwarded,
)
from hpa_replacement.adapter.authorisation import AccessRequest, Authoriser
from hpa_replacement.adapter.metrics import Metrics
from hpa_replacement.adapter.model import NotFound
from hpa_replacement.adapter.refusal import Refusal
from hpa_replacement.adapter.settings import Settings
from hpa_replacement.adapter.table import KnativePods, Policies
from surgekit.kube.client import ApiError, Kube, KubeUnreachable
from surgekit.kube.events import EventRecorder
from surgekit.kube.table import Unreadable
from surgekit.kube.token_review import Identity
from surgekit.process import request_server
from surgekit.process.health_server import health_port
from surgekit.process.http_port import HEADERS, PEER, REQUESTS, HttpPort
from surgekit.process.latency import answer_quickly
from surgekit.tls import ReloadingServerContext

__all__ = ["Application", "run"]

log = structlog.get_logger(__name__)
_LOAD_S = 20.0  # under the 30 s gunicorn gives a worker to begin
Answer = flask.typing.ResponseReturnValue
T = TypeVar("T")


class Application:
    """The WSGI application of a worker, with its watches and caches."""

    def __init__(self, settings: Settings, kube: Kube) -> None:
        self.settings = settings
        self._events = EventRecorder(kube, "adapter")
        unreadable = Unreadable(self._events)
        self.policies = Policies(kube, unreadable)
        self.pods = KnativePods(kube, unreadable) if settings.knative else None
        self._directory = tempfile.TemporaryDirectory(prefix="surgekit-adapter-")
        self._ca_file = Path(self._directory.name) / "request-header-ca.crt"
        self._front_proxy = FrontProxy(kube, unreadable, self._ca_file)
        self._tokens = TokenReviews(kube)
        self._authoriser = Authoriser(kube, settings.allowed_for_s, settings.denied_for_s)
        self._limits = values.Limits(
            settings.max_age_intervals, settings.max_input_age_s, settings.hpa_tolerance
        )
        self.metrics = Metrics(self.policies.count, self.input_age_s)
        self.registry = self.metrics.registry
        self.registry.register(unreadable)
        self._flask = _flask(self)
        self.ports: tuple[HttpPort, ...] = ()  # until `load`

    def start(self) -> Application:
        self.load()
        self._events.start()
        self._front_proxy.start()
        self.policies.start()
        if self.pods:
            self.pods.start()
        return self

    def load(self) -> None:
        """Read which front proxies to trust. Without them nothing can be served: raise after a while, so that
        gunicorn starts another worker."""
        deadline_s = time.monotonic() + _LOAD_S
        while True:
            try:
                self._front_proxy.load()
                break
            except (KubeUnreachable, ApiError, FrontProxyError) as error:
                log.warning("front proxy rules not read yet, will retry", error=str(error))
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(1.0)
        directory = self.settings.tls_directory
        tls = ReloadingServerContext(directory / "tls.crt", directory / "tls.key", self._ca_file)
        requests = HttpPort(self, REQUESTS, tls.context, self._trusts)
        self.ports = requests, health_port(self, requests=requests)

    def stop(self) -> None:
        for port in self.ports:
            port.close()
        self.policies.stop()
        if self.pods:
            self.pods.stop()
        self._front_proxy.stop()
        self._events.stop()
        self._directory.cleanup()

    def input_age_s(self) -> float:
        return self.policies.age_s(time.monotonic())

    def alive(self, now_s: float) -> bool:  # noqa: ARG002
        return True  # a worker that answers is alive

    def not_ready(self, now_s: float) -> str:
        fresh = self.policies.age_s(now_s) <= self.settings.max_input_age_s
        return "" if fresh else "no word of KneePolicies from the API server"

    def _trusts(self, name: str | None) -> bool:
        rules = self._front_proxy.rules
        return rules is not None and rules.trusts(name)

    def authorise(self, access: AccessRequest) -> None:
        """Raise a Refusal unless the caller is authenticated and authorised."""
        self._authoriser.check(self._identity(flask.request.environ), access, time.monotonic())

    def _identity(self, environ: dict[str, Any]) -> Identity:
        rules = self._front_proxy.rules
        peer = environ.get(PEER)
        if rules is not None and rules.trusts(peer):
            if user := forwarded(rules, environ[HEADERS]):
                return user
            raise Refusal(401, "the front proxy names no user")
        scheme, _, token = flask.request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return self._tokens.owner(token.strip(), time.monotonic())
        shown = f"a certificate for {peer!r}, which is not an allowed name" if peer else "no certificate"
        raise Refusal(401, f"neither the front proxy (there is {shown}) nor a bearer token")

    def picture(self) -> values.Picture:
        pods_age_s = self.pods.age_s(time.monotonic()) if self.pods else math.inf
        return values.Picture(self.policies.table, self.input_age_s(), time.time(), self._limits, pods_age_s)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        return self._flask(environ, start_response)


def _flask(application: Application) -> flask.Flask:
    app = flask.Flask("hpa_replacement.adapter", static_folder=None)
    metrics = application.metrics
    external, custom = (f"/apis/{group}/{version}" for group, version in discovery.VERSIONS.items())

    @app.get("/apis")
    def groups() -> Answer:
        return _json(discovery.group_list())

    @app.get("/apis/<group>")
    def group(group: str) -> Answer:
        _known(group)
        return _json(discovery.group(group))

    @app.get("/apis/<group>/<version>")
    def resources(group: str, version: str) -> Answer:
        _known(group, version)
        return _json(discovery.resource_list(group))

    @app.get("/openapi/v2")
    def openapi() -> Answer:
        return _json(discovery.openapi())

    @app.get(f"{external}/namespaces/<namespace>/<metric>")
    def external_metric(namespace: str, metric: str) -> Answer:
        selector = selectors.parse(flask.request.args.get("labelSelector", ""))
        found = values.selected(application.picture(), namespace, metric, selector)
        return _answer(found, values.external_list)

    @app.get(f"{custom}/namespaces/<namespace>/{discovery.POLICIES}/<name>/<metric>")
    def custom_metric(namespace: str, name: str, metric: str) -> Answer:
        selector = selectors.parse(flask.request.args.get("metricLabelSelector", ""))
        found = values.named(application.picture(), namespace, name, metric, selector)
        return _answer(found, values.custom_list)

    @app.get(f"{custom}/namespaces/<namespace>/pods/*/<metric>")
    def pods_metric(namespace: str, metric: str) -> Answer:
        of_pods, of_metric = (
            selectors.parse(flask.request.args.get(key, ""))
            for key in ("labelSelector", "metricLabelSelector")
        )
        pods = application.pods.selected(namespace, of_pods) if application.pods else []
        found = values.for_pods(application.picture(), metric, pods, namespace, of_metric)
        return _answer(found, values.pods_list)

    @app.before_request
    def authorise() -> None:
        """Come before every handler, whatever the method: metrics are resources, all else is a path."""
        flask.g.begin_s = time.perf_counter()
        application.authorise(_access_request())

    @app.after_request
    def counted(response: flask.Response) -> flask.Response:
        parts = flask.request.path.split("/")
        group = parts[2] if len(parts) > 2 and parts[2] in discovery.VERSIONS else "none"
        metrics.requests.labels(group, str(response.status_code)).inc()
        if flask.request.endpoint in ("external_metric", "custom_metric", "pods_metric"):
            metrics.seconds.observe(time.perf_counter() - flask.g.begin_s)
        return response

    @app.errorhandler(Refusal)
    def refused(refusal: Refusal) -> Answer:
        log.debug("refused", path=flask.request.path, code=refusal.code, reason=refusal.message)
        return _json(refusal.status(), refusal.code)

    @app.errorhandler(selectors.SelectorError)
    def not_understood(error: selectors.SelectorError) -> Answer:
        return refused(Refusal(400, str(error)))

    @app.errorhandler(werkzeug.exceptions.HTTPException)
    def unknown(error: werkzeug.exceptions.HTTPException) -> Answer:
        code = error.code or 500
        return refused(Refusal(code, f"{flask.request.method} {flask.request.path}: {error.name}"))

    @app.errorhandler(Exception)
    def failed(error: Exception) -> Answer:
        log.error("request failed", path=flask.request.path, exc_info=error)
        return refused(Refusal(500, "the adapter failed; its log says why"))

    return app


def _access_request() -> AccessRequest:
    """As kube-apiserver reads the same path: one rule in RBAC holds for both."""
    request, names = flask.request, flask.request.view_args or {}
    match request.endpoint:
        case "external_metric":
            return AccessRequest(
                "list",
                group=discovery.EXTERNAL,
                version=discovery.VERSIONS[discovery.EXTERNAL],
                resource=names["metric"],
                namespace=names["namespace"],
            )
        case "custom_metric":
            return AccessRequest(
                "get",
                group=discovery.CUSTOM,
                version=discovery.VERSIONS[discovery.CUSTOM],
                resource=discovery.POLICIES,
                subresource=names["metric"],
                namespace=names["namespace"],
                name=names["name"],
            )
        case "pods_metric":
            return AccessRequest(
                "get",
                group=discovery.CUSTOM,
                version=discovery.VERSIONS[discovery.CUSTOM],
                resource="pods",
                subresource=names["metric"],
                namespace=names["namespace"],
                name="*",
            )
        case _:
            return AccessRequest(request.method.lower(), path=request.path)


def _known(group: str, version: str | None = None) -> None:
    served = discovery.VERSIONS.get(group)
    if served is None or version not in (None, served):
        raise Refusal(404, f"{group}{f'/{version}' if version else ''} is not served here")


def _answer(found: T | NotFound, listed: Callable[[T], dict[str, Any]]) -> Answer:
    if isinstance(found, NotFound):
        raise Refusal(404, found.reason)
    return _json(listed(found))


def _json(body: dict[str, Any], status: int = 200) -> flask.Response:
    return flask.Response(orjson.dumps(body), status, content_type="application/json")


def run(settings: Settings, kubeconfig: Path | None = None) -> None:
    """Serve until told to stop."""

    def make() -> Application:
        answer_quickly()
        return Application(settings, Kube.connect(kubeconfig)).start()

    binds = [settings.bind, settings.health_bind]
    request_server.serve(make, binds, "surgekit-adapter", settings.log_level)
