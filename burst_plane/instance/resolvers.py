"""An instance's /etc/resolv.conf: short names of Services mean what they mean in the function's pods."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["resolv_conf"]


def resolv_conf(nameservers: Sequence[str], namespace: str, cluster_domain: str) -> str:
    """As the kubelet writes it for dnsPolicy ClusterFirst."""
    lines = [f"nameserver {each}" for each in nameservers]
    if cluster_domain:
        service = f"svc.{cluster_domain}"
        lines += [f"search {namespace}.{service} {service} {cluster_domain}", "options ndots:5"]
    return "".join(f"{line}\n" for line in lines)
