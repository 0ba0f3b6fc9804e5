"""Write HAProxy's configuration. It does not depend on functions or pods, so HAProxy is never reloaded.

A reload starts a second HAProxy beside the first, each with its own `maxconn`. Backends and their slots are
declared once. Maps say which function has which backend, and which may use the emergency track; they change
while HAProxy runs.

A function's backend has two servers beside its slots:

- `emergency`: the placement gives its address for each request. Its weight is 0, so no other request goes
  there, and `be_conn_free` does not count it.
- `again`: HAProxy's own frontend of that name, where a request starts over. As a backup it is used only while
  the function has no pod: for a request whose emergency instance refused the connection, and for requests
  that wait here when their function moves to another backend.
"""

from __future__ import annotations

from pathlib import Path

from function_gateway.backends import slot_name
from function_gateway.ingress import INGRESS, ingress, without_function
from function_gateway.settings import Settings
from surgekit.haproxy.runtime import WAIT_FOR_SERVER
from surgekit.haproxy.traffic import EMERGENCY, EMERGENCY_ID, OWN_BACKEND

__all__ = [
    "IDEMPOTENT",
    "NAMESPACES",
    "ONCE",
    "SYNCED",
    "backend_name",
    "configuration",
    "move_on",
    "replica_name",
    "write",
]

NAMESPACES = "namespaces"  # stick table: requests under way (conn_cur) and refused (gpc0), by namespace
SYNCED = "synced"  # a backend whose server gets a weight after the first sync; requests wait for it
IDEMPOTENT, ONCE = "idempotent", "once"  # values in the map of overflow: whether requests may run twice
REPLICA = "p"  # backends of other replicas: p0, p1, ...
_PLACEHOLDER = "192.0.2.1:80"  # the address of a slot without a pod (RFC 5737); never dialled
_GATEWAY = Path(__file__).with_name("gateway.lua")
# Of `again`: more than all pods of a function take, so `be_conn_free` tells that it has none.
_WITHOUT_POD = 2_000_000_000
# Header with a mark for each time the request started over, and one if it was sent to an emergency instance.
_PASSES, _AGAIN, _ASKED, _MOST_PASSES = "x-surgekit-passes", "+", "e", 12


def backend_name(number: int) -> str:
    return f"{OWN_BACKEND}{number}"


def replica_name(number: int) -> str:
    return f"{REPLICA}{number}"


def move_on(backend: str) -> str:
    """The command that makes the queue of a backend without a pod start over: setting maxconn makes a server
    take from the queue."""
    return f"set maxconn server {backend}/again {_WITHOUT_POD}"


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
        f"    setenv SURGEKIT_FUNCTIONS_MAP {settings.map_file}",  # HAProxy 2.6 gives scripts no arguments
        f"    lua-load {settings.directory / _GATEWAY.name}",
        *_lines_for_the_placement(settings),
        "defaults",
        "    mode http",
        "    option abortonclose",  # drop queued requests whose client left
        "    timeout client 60s",
        "    timeout http-request 10s",  # for the whole head of a request
        "    timeout http-keep-alive 1m",
        "    timeout connect 3s",
        f"    timeout queue {timeout_ms}ms",
        f"    timeout server {timeout_ms}ms",
        "    timeout tunnel 1h",  # of an upgraded connection on which nothing moves
        # A pod that refuses the connection has not seen the request, so another pod may get it. A pod that
        # ends closes its connections, maybe while a request is on its way to it: HAProxy would close the
        # client's connection without an answer. GET and HEAD may be sent twice (RFC 9110), others not.
        "    retries 2",
        "    retry-on conn-failure empty-response",
        "    option redispatch 1",
        # Pick the pod with the fewest requests for its weight; skip full pods. When all are full, the request
        # waits in the backend's queue, and the first pod with a free place takes it.
        "    balance leastconn",
        '    http-error status 503 content-type text/plain string "no pod took the request in time"'
        " hdr Retry-After 1",
        "frontend functions",
        f"    bind {settings.listen}",
        "    option forwardfor",
        "    tcp-request connection track-sc0 src table clients",
        f"    tcp-request connection reject if {{ sc_conn_cur(0) gt {settings.connections_per_client} }}",
        "    option dontlognull",
        *_logs(),
        f"    http-request del-header {_PASSES}",
        "    http-request disable-l7-retry unless METH_GET",
        *_function(settings, timeout_ms),
        *without_function(settings.ingress, 404),
        # Known functions only, so that clients cannot fill the table with names.
        "    http-request set-var(txn.namespace) var(txn.function),field(2,.)",
        f"    http-request track-sc1 var(txn.namespace) table {NAMESPACES}"
        f" unless {{ var(txn.backend) -m str {INGRESS} }}",
        f"    acl over_quota sc_conn_cur(1) gt {settings.connections_per_namespace}",
        "    http-request sc-inc-gpc0(1) if over_quota",
        "    http-request return status 429 content-type text/plain hdr Retry-After 1 "
        f'string "this namespace has {settings.connections_per_namespace} requests under way, its quota" '
        "if over_quota",
        "    use_backend %[var(txn.backend)]",
        "frontend again",
        f"    bind unix@{settings.again} mode 600",
        *_passed_on(settings, timeout_ms),
        "backend clients",
        "    stick-table type ipv6 size 100k expire 2m store conn_cur",
        f"backend {NAMESPACES}",
        "    stick-table type string len 64 size 10k expire 1h store conn_cur,gpc0",
        f"backend {SYNCED}",
        f"    server {SYNCED} {_PLACEHOLDER} weight 0",
        *ingress(settings.ingress),
    ]
    if settings.replicas_service:
        lines += [
            "frontend forwarded",
            f"    bind {settings.address}:{settings.forward_port}",
            f"    tcp-request connection reject unless {{ src,map_ip({settings.replicas_map}) -m found }}",
            *_passed_on(settings, timeout_ms),
        ]
        for number in range(settings.most_replicas):
            lines += _replica(settings, replica_name(number), timeout_ms)
    for number in range(settings.functions):
        lines += _backend(settings, backend_name(number), timeout_ms)
    return "\n".join(lines) + "\n"


def _lines_for_the_placement(settings: Settings) -> list[str]:
    """Over a stream: a datagram socket holds 10 (net.unix.max_dgram_qlen), and HAProxy drops the rest.

    While nobody listens, a ring of HAProxy 2.6 connects again and again without a pause (half a core). There
    it connects to HAProxy itself, which discards the lines while there is no placement: a new one knows
    nothing of requests that asked before."""
    lines, nobody = settings.directory / "lines.sock", settings.directory / "nobody.sock"
    check = "check inter 500ms rise 1 fall 1 observe layer4 error-limit 1 on-error mark-down"
    return [
        "ring ended",
        "    format raw",
        "    maxlen 400",
        "    size 1048576",
        "    timeout connect 1s",
        "    timeout server 1h",
        ".if version_atleast(3.0)",
        f"    server placement unix@{settings.placement_log}",
        ".else",
        f"    server placement unix@{lines}",
        "listen lines",
        "    mode tcp",
        f"    bind unix@{lines} mode 600",
        "    timeout client 1h",
        "    timeout server 1h",
        "    timeout connect 1s",
        f"    server placement unix@{settings.placement_log} {check} on-marked-up shutdown-backup-sessions",
        f"    server nobody unix@{nobody} backup",
        "frontend nobody",
        "    mode tcp",
        f"    bind unix@{nobody} mode 600",
        "    timeout client 1h",
        "    tcp-request inspect-delay 1s",
        "    tcp-request content reject if WAIT_END",
        ".endif",
    ]


def _logs() -> list[str]:
    """Failures go to stdout. A request that asked for an instance has level alert, and goes to the placement
    as well (burst_plane.placement.messages reads the fields up to %Ta). All others have level info."""
    return [
        "    option log-separate-errors",
        "    log stdout format raw local0 err",
        "    log ring@ended format raw local0 alert",
        '    log-format "%[var(txn.said)] %ST %ts %Tc %Tr %Ta: %[var(txn.function)] at %s, %Tw ms queued"',
        "    http-request set-var(txn.said) str(failed:)",
    ]


def _function(settings: Settings, timeout_ms: int) -> list[str]:
    """Find the function's backend."""
    return [
        "    http-request set-var(txn.function) req.hdr(host),field(1,:),lower,field(1,.,2)",
        f"    http-request lua.wait_for_server {SYNCED} {timeout_ms} if {{ nbsrv({SYNCED}) lt 1 }}",
        f"    http-request set-var(txn.backend) var(txn.function),map({settings.map_file})",
    ]


def _passed_on(settings: Settings, timeout_ms: int) -> list[str]:
    """What a frontend does with requests that went through another frontend first."""
    return [
        *_logs(),
        "    http-request disable-l7-retry unless METH_GET",
        f"    http-request deny deny_status 503 if {{ req.fhdr({_PASSES}) -m len ge {_MOST_PASSES} }}",
        f"    http-request set-header {_PASSES} %[req.fhdr({_PASSES})]{_AGAIN}",
        # Replicas that do not agree yet send a request to and fro.
        f"    http-request set-var(txn.passes) req.fhdr({_PASSES}),length",
        "    http-request lua.pause if { var(txn.passes) -m int gt 2 }",
        *_function(settings, timeout_ms),
        *without_function(settings.ingress, 503),
        "    use_backend %[var(txn.backend)]",
    ]


def _replica(settings: Settings, backend: str, timeout_ms: int) -> list[str]:
    """Another replica, which owns functions. While it is gone, requests wait here until they have moved."""
    return [
        f"backend {backend}",
        f"    timeout server {2 * timeout_ms + 5000}ms",  # it may queue there, and then be worked on
        "    retries 5",
        *_wait_for_pod(backend, timeout_ms),
        f"    server replica {_PLACEHOLDER} weight 0 maxconn {_WITHOUT_POD // 2} source {settings.address}",
        f"    server again unix@{settings.again} backup maxconn {_WITHOUT_POD}",
    ]


def _wait_for_pod(backend: str, timeout_ms: int) -> list[str]:
    return [
        f"    acl without_pod be_conn_free ge {_WITHOUT_POD}",
        "    acl placed var(txn.address) -m found",
        f"    http-request lua.wait_for_pod {backend} {_WITHOUT_POD} {timeout_ms} if without_pod !placed",
        # Late, or its client left.
        "    http-request deny deny_status 503 if without_pod !placed !{ var(txn.moved) -m bool }",
    ]


def _backend(settings: Settings, backend: str, timeout_ms: int) -> list[str]:
    budget_ms = round(settings.placement_timeout_s * 1000)
    overflow = f"var(txn.function),map({settings.overflow_map})"
    return [
        f"backend {backend}",
        "    acl full be_conn_free le 0",
        f"    acl without_pod be_conn_free ge {_WITHOUT_POD}",
        "    acl asks var(txn.request) -m found",
        "    acl placed var(txn.address) -m found",
        # The first rule is all that a request meets which finds a free slot.
        f"    http-request set-var(txn.overflow) {overflow} if full or without_pod",
        # Made here: nothing that a client sends names an instance.
        "    http-request set-var(txn.request) uuid if { var(txn.overflow) -m found } "
        f"!{{ req.fhdr({_PASSES}) -m sub {_ASKED} }}",
        '    http-request set-var-fmt(txn.said) "end %[var(txn.request)]" if asks',
        "    http-request set-log-level alert if asks",
        f"    http-request lua.place {settings.placement} {budget_ms} if asks",
        "    http-request set-dst var(txn.address) if placed",
        "    http-request set-dst-port var(txn.port) if placed",
        f"    http-request disable-l7-retry if placed !{{ var(txn.overflow) -m str {IDEMPOTENT} }}",
        f"    http-request set-header {_PASSES} %[req.fhdr({_PASSES})]{_ASKED} if placed",
        *_wait_for_pod(backend, timeout_ms)[2:],
        f"    use-server {EMERGENCY} if placed",
        f"    server {EMERGENCY} 0.0.0.0 id {EMERGENCY_ID} weight 0 pool-max-conn 0",
        # One line a slot, and no `server-template`: a test lab adds a network namespace to each line,
        # and HAProxy 2.6.12 applies that option of a template to its first server only.
        *(
            f"    server {slot_name(slot)} {_PLACEHOLDER} weight 0 maxconn 1"
            for slot in range(settings.slots)
        ),
        f"    server again unix@{settings.again} backup maxconn {_WITHOUT_POD}",
    ]


def write(settings: Settings) -> None:
    """Write all files that `haproxy -f DIRECTORY/haproxy.cfg` needs."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    for script in (WAIT_FOR_SERVER, _GATEWAY):
        (settings.directory / script.name).write_text(script.read_text())
    for empty in (settings.map_file, settings.overflow_map, settings.replicas_map):
        empty.write_text("")
    (settings.directory / "haproxy.cfg").write_text(configuration(settings))
