"""The configuration of HAProxy as the lab's gateway. It picks pods at random, as kube-proxy does."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from kwok.errors import LabError
from surgekit.haproxy.runtime import WAIT_FOR_SERVER

__all__ = ["Gateway", "configuration", "find_haproxy", "slot"]

_PLACEHOLDER = "10.255.255.254"  # the address of a slot without a pod; never dialled


@dataclass(frozen=True)
class Gateway:
    """The gateway of a lab. A backend's name is the Host of its requests: `function.namespace`."""

    port: int
    backends: tuple[str, ...]
    slots: int  # most pods of a backend
    pod_port: int
    timeout_s: float
    network_namespace: str
    control: Path  # its socket for commands
    log: Path  # the socket it logs to


def find_haproxy() -> Path:
    # Debian installs it in a directory of root's PATH.
    found = shutil.which("haproxy", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if found is None:
        raise LabError("haproxy is not on PATH: `apt-get install haproxy` (2.4 or newer)")
    return Path(found)


def slot(number: int) -> str:
    return f"pod{number + 1}"


def configuration(gateway: Gateway) -> str:
    """One thread is enough, and keeps all idle connections in one pool.

    A request goes to one random pod, as with kube-proxy, and is not retried. Idle connections are reused
    (HTTP/1: one request at a time on each, so none waits for another).
    """
    timeout = f"{round(gateway.timeout_s * 1000)}ms"
    lines = [
        "global",
        "    nbthread 1",
        "    maxconn 4000",
        "    tune.idle-pool.shared off",
        f"    stats socket {gateway.control} mode 600 level admin",
        "    stats timeout 1h",
        f"    lua-load {WAIT_FOR_SERVER}",
        "defaults",
        "    mode http",
        # Host, status, microseconds, how it ended.
        '    log-format "%[var(txn.host)] %ST %[date(0,us),sub(txn.began)] %ts"',
        "    option dontlognull",
        "    option abortonclose",
        "    timeout client 1h",
        "    timeout http-keep-alive 1h",
        "    timeout connect 5s",
        f"    timeout queue {timeout}",
        f"    timeout server {timeout}",
        "    retries 0",
        # Uniform, as kube-proxy's choice is. `balance random(1)` is not: it draws a point on a ring on which
        # servers hold arcs of unlike lengths (16 points a unit of weight: 1/sqrt(16) apart at weight 1).
        "    balance hash rand(1000000000)",
        "    hash-type map-based crc32",
        "    http-reuse always",
        "frontend gateway",
        f"    bind 127.0.0.1:{gateway.port}",
        # Here only: backends would log every pod that comes and goes.
        f"    log {gateway.log} len 200 format raw local0 info",
        "    http-request set-var(txn.began) date(0,us)",
        "    http-request set-var(txn.host) req.hdr(host),field(1,:),lower",
        "    use_backend %[var(txn.host)]",
    ]
    for backend in gateway.backends:
        lines += [
            f"backend {backend}",
            f"    http-request lua.wait_for_server {backend} {round(gateway.timeout_s * 1000)}"
            " if { nbsrv lt 1 }",
            "    http-request set-timeout server var(txn.left_ms) if { var(txn.left_ms) -m found }",
            # Not by `server-template`: of its servers only the first is in the namespace (HAProxy 2.6.12),
            # and the others dial whoever has a pod's address on the host's network.
            *(
                f"    server {slot(number)} {_PLACEHOLDER}:{gateway.pod_port}"
                f" namespace {gateway.network_namespace} disabled"
                for number in range(gateway.slots)
            ),
        ]
    return "\n".join(lines) + "\n"
