"""Configure HAProxy for requests that name no function here: the cluster's own ingress takes them. Pure.

So the load balancer can stand in front of Knative's ingress. `place` is the ingress's HOST:PORT; empty:
there is none.
"""

from __future__ import annotations

from ipaddress import ip_address

__all__ = ["INGRESS", "ingress", "without_function"]

INGRESS = "ingress"  # the backend's name


def without_function(place: str, code: int) -> list[str]:
    """What a frontend does with requests for hosts that are none of ours, or not any more."""
    if not place:
        return [f"    http-request deny deny_status {code} unless {{ var(txn.backend) -m found }}"]
    return [
        # Knative's queue-proxy would take the request for one that an activator counts.
        "    http-request del-header k-proxy-request",
        f"    http-request set-var(txn.backend) str({INGRESS}) unless {{ var(txn.backend) -m found }}",
    ]


def ingress(place: str) -> list[str]:
    if not place:
        return []
    host = place.rpartition(":")[0].strip("[]")
    found = "" if _is_address(host) else " resolvers cluster init-addr last,libc,none"
    return [
        *(["resolvers cluster", "    parse-resolv-conf", "    hold valid 10s"] if found else []),
        f"backend {INGRESS}",
        "    timeout server 1h",  # the ingress has its own
        "    timeout queue 60s",
        f"    server {INGRESS} {place}{found}",
    ]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
