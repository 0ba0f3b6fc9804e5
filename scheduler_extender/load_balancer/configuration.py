"""What HAProxy is started with: nothing in it depends on functions or pods, so it is never reloaded.

A reload would start a second HAProxy beside the first, each with a `maxconn` of its own. Backends and their
slots are declared once; which function has which backend is in a map, which changes while HAProxy runs.
"""

from __future__ import annotations

from scheduler_extender.load_balancer.backends import slot_name
from scheduler_extender.load_balancer.settings import Settings
from surgekit.haproxy_runtime import WAIT_FOR_SERVER

__all__ = ["TOLD", "backend_name", "configuration", "write"]

TOLD = "told"  # a backend whose server gets a weight once all functions were told
_PLACEHOLDER = "192.0.2.1:80"  # the address of a slot no pod had yet (RFC 5737); never dialled


def backend_name(number: int) -> str:
    return f"f{number}"


def configuration(settings: Settings) -> str:
    timeout_ms = round(settings.gateway_timeout_s * 1000)
    namespace = f" namespace {settings.network_namespace}" if settings.network_namespace else ""
    lines = [
        "global",
        # With more threads, two may give the last place of a pod away at the same time.
        "    nbthread 1",
        f"    maxconn {settings.max_connections}",
        f"    stats socket {settings.control} mode 600 level admin",
        "    hard-stop-after 30s",
        f"    lua-load {settings.directory / WAIT_FOR_SERVER.name}",
        "defaults",
        "    mode http",
        "    option abortonclose",  # who leaves the queue is not served
        "    option forwardfor",
        "    timeout client 60s",
        "    timeout http-request 30s",
        "    timeout http-keep-alive 5m",
        "    timeout connect 3s",
        f"    timeout queue {timeout_ms}ms",
        f"    timeout server {timeout_ms}ms",
        # A pod that does not take the connection has not seen the request: another may.
        "    retries 2",
        "    retry-on conn-failure",
        "    option redispatch 1",
        # The least loaded for its size. A full one is passed over; when all are full, a request waits in the
        # backend's queue, and whichever pod has a place first gets it.
        "    balance leastconn",
        "frontend functions",
        f"    bind {settings.listen}",
        "    option dontlognull",
        "    option dontlog-normal",  # only what failed
        "    log stdout format raw local0 info",
        '    log-format "failed: %[var(txn.function)] %ST %ts after %Tt ms, %Tw of them in the queue, at %s"',
        "    http-request set-var(txn.function) req.hdr(host),field(1,:),lower,field(1,.,2)",
        f"    http-request lua.wait_for_server {TOLD} {timeout_ms} if {{ nbsrv({TOLD}) lt 1 }}",
        f"    http-request set-var(txn.backend) var(txn.function),map({settings.map_file})",
        "    http-request deny deny_status 404 unless { var(txn.backend) -m found }",
        "    use_backend %[var(txn.backend)]",
        f"backend {TOLD}",
        f"    server {TOLD} {_PLACEHOLDER} weight 0",
    ]
    for number in range(settings.functions):
        backend = backend_name(number)
        lines += [
            f"backend {backend}",
            f"    http-request lua.wait_for_server {backend} {timeout_ms} if {{ nbsrv lt 1 }}",
            # Not by `server-template`: of its servers only the first is in the namespace (HAProxy 2.6.12).
            *(
                f"    server {slot_name(slot)} {_PLACEHOLDER} weight 0 maxconn 1{namespace}"
                for slot in range(settings.slots)
            ),
        ]
    return "\n".join(lines) + "\n"


def write(settings: Settings) -> None:
    """Everything HAProxy needs to start: `haproxy -f DIRECTORY/haproxy.cfg`."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    (settings.directory / WAIT_FOR_SERVER.name).write_text(WAIT_FOR_SERVER.read_text())
    settings.map_file.write_text("")
    (settings.directory / "haproxy.cfg").write_text(configuration(settings))
