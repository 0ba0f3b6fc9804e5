"""Write HAProxy's configuration. It does not depend on functions or pods, so HAProxy is never reloaded.

A reload starts a second HAProxy beside the first, each with its own `maxconn`. Backends and their slots are
declared once. A map assigns backends to functions, and changes while HAProxy runs.
"""

from __future__ import annotations

from function_gateway.backends import slot_name
from function_gateway.settings import Settings
from surgekit.haproxy.runtime import WAIT_FOR_SERVER

__all__ = ["NAMESPACES", "SYNCED", "backend_name", "configuration", "write"]

NAMESPACES = "namespaces"  # stick table: requests under way (conn_cur) and refused (gpc0), by namespace
SYNCED = "synced"  # a backend whose server gets a weight after the first sync; requests wait for it
_PLACEHOLDER = "192.0.2.1:80"  # the address of a slot without a pod (RFC 5737); never dialled


def backend_name(number: int) -> str:
    return f"f{number}"


def configuration(settings: Settings) -> str:
    timeout_ms = round(settings.gateway_timeout_s * 1000)
    lines = [
        "global",
        # With more threads, two may fill the last place of a pod at the same time.
        "    nbthread 1",
        f"    maxconn {settings.max_connections}",
        f"    stats socket {settings.control} mode 600 level admin",
        f"    stats socket {settings.statistics} mode 600 level user",
        "    hard-stop-after 30s",
        f"    lua-load {settings.directory / WAIT_FOR_SERVER.name}",
        "defaults",
        "    mode http",
        "    option abortonclose",  # drop queued requests whose client left
        "    option forwardfor",
        "    timeout client 60s",
        "    timeout http-request 10s",  # for the whole head of a request
        "    timeout http-keep-alive 1m",
        "    timeout connect 3s",
        f"    timeout queue {timeout_ms}ms",
        f"    timeout server {timeout_ms}ms",
        # A pod that refuses the connection has not seen the request, so another pod may get it. A pod that
        # ends closes its connections, maybe while a request is on its way to it: HAProxy would close the
        # client's connection without an answer. GET and HEAD may be sent twice (RFC 9110), others not.
        "    retries 2",
        "    retry-on conn-failure empty-response",
        "    option redispatch 1",
        # Pick the pod with the fewest requests for its weight; skip full pods. When all are full, the request
        # waits in the backend's queue, and the first pod with a free place takes it.
        "    balance leastconn",
        "frontend functions",
        f"    bind {settings.listen}",
        "    tcp-request connection track-sc0 src table clients",
        f"    tcp-request connection reject if {{ sc_conn_cur(0) gt {settings.connections_per_client} }}",
        "    option dontlognull",
        "    option dontlog-normal",  # log failures only
        "    log stdout format raw local0 info",
        '    log-format "failed: %[var(txn.function)] %ST %ts after %Tt ms, %Tw of them in the queue, at %s"',
        "    http-request disable-l7-retry unless METH_GET",
        "    http-request set-var(txn.function) req.hdr(host),field(1,:),lower,field(1,.,2)",
        f"    http-request lua.wait_for_server {SYNCED} {timeout_ms} if {{ nbsrv({SYNCED}) lt 1 }}",
        f"    http-request set-var(txn.backend) var(txn.function),map({settings.map_file})",
        "    http-request deny deny_status 404 unless { var(txn.backend) -m found }",
        # Known functions only, so that clients cannot fill the table with names.
        "    http-request set-var(txn.namespace) var(txn.function),field(2,.)",
        f"    http-request track-sc1 var(txn.namespace) table {NAMESPACES}",
        f"    acl over_quota sc_conn_cur(1) gt {settings.connections_per_namespace}",
        "    http-request sc-inc-gpc0(1) if over_quota",
        "    http-request return status 429 content-type text/plain hdr Retry-After 1 "
        f'string "this namespace has {settings.connections_per_namespace} requests under way, its quota" '
        "if over_quota",
        "    use_backend %[var(txn.backend)]",
        "backend clients",
        "    stick-table type ipv6 size 100k expire 2m store conn_cur",
        f"backend {NAMESPACES}",
        "    stick-table type string len 64 size 10k expire 1h store conn_cur,gpc0",
        f"backend {SYNCED}",
        f"    server {SYNCED} {_PLACEHOLDER} weight 0",
    ]
    for number in range(settings.functions):
        backend = backend_name(number)
        lines += [
            f"backend {backend}",
            f"    http-request lua.wait_for_server {backend} {timeout_ms} if {{ nbsrv lt 1 }}",
            # One line a slot, and no `server-template`: a test lab adds a network namespace to each line,
            # and HAProxy 2.6.12 applies that option of a template to its first server only.
            *(
                f"    server {slot_name(slot)} {_PLACEHOLDER} weight 0 maxconn 1"
                for slot in range(settings.slots)
            ),
        ]
    return "\n".join(lines) + "\n"


def write(settings: Settings) -> None:
    """Write all files that `haproxy -f DIRECTORY/haproxy.cfg` needs."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    (settings.directory / WAIT_FOR_SERVER.name).write_text(WAIT_FOR_SERVER.read_text())
    settings.map_file.write_text("")
    (settings.directory / "haproxy.cfg").write_text(configuration(settings))
