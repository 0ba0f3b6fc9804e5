"""Finds out which node an agent speaks for: its token names the node, and the API server vouches for it.

All agents share one client certificate. So each sends a token of its service account, too. The kubelet gets
one for each pod (a projected volume), bound to the pod; a review of it names the pod's node (Kubernetes
1.32). A kubelet gets tokens for pods of its own node only, so whoever holds one node speaks for no other.
"""

from __future__ import annotations

from surgekit.errors import UserError
from surgekit.kube.client import Kube
from surgekit.kube.token_review import Identity, review_token

__all__ = ["AUDIENCE", "NodeTokens", "NotAnAgent", "node_of"]

AUDIENCE = "surgekit-limit-allocator"  # whom agents' tokens are for: they are no use at the API server
_NODE = "authentication.kubernetes.io/node-name"


class NotAnAgent(UserError):
    """The caller is no agent, or not of the node that it names."""


class NodeTokens:
    """Asks the API server about tokens. Safe to share between threads."""

    def __init__(self, kube: Kube, account: str) -> None:
        """`account` is the user name of the agents' service account."""
        self._kube, self._account = kube, account

    def node_of(self, token: str) -> str:
        """Raise NotAnAgent; ApiError or KubeUnreachable if nobody can say."""
        if not token:
            raise NotAnAgent("an agent must show its token")
        return node_of(review_token(self._kube, token, AUDIENCE), self._account)


def node_of(owner: Identity | None, account: str) -> str:
    """The node that a token's owner may speak for. Raise NotAnAgent."""
    if owner is None:
        raise NotAnAgent("the agent's token is not valid")
    if owner.name != account:
        raise NotAnAgent(f"the token is not of {account}")
    nodes = owner.extra_of(_NODE)
    if len(nodes) != 1 or not nodes[0]:
        raise NotAnAgent("the token names no node: is it bound to a pod, and is Kubernetes 1.32 or later?")
    return nodes[0]
