"""Tokens of Escra's agents, reviewed by a real API server for the controller's own account."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwok.cluster import account_token
from kwok.lab import Lab
from limit_allocator.authentication import AUDIENCE, NodeTokens, NotAnAgent
from limit_allocator.settings import Settings
from limit_allocator.wire.link import Link
from limit_allocator.wire.messages import Hello
from limit_allocator.wire.server import AgentServer, Closed
from surgekit.kube.client import Kube
from tests.limit_allocator.agent.controller_server import NAME, certificates
from tests.manifests.installed_cluster import NAMESPACE, until

pytestmark = pytest.mark.lab

Json = dict[str, Any]
AGENTS, AGENT = "surgekit-agents", "surgekit-limit-agent"
PODS = f"/api/v1/namespaces/{AGENTS}/pods"
Token = Callable[..., str]


@pytest.fixture(scope="module")
def agents(installed: Lab) -> list[Json]:
    """The DaemonSet's pods, one a node."""

    def placed() -> list[Json]:
        pods, _ = installed.kube.list_all(PODS)
        return [pod for pod in pods if pod["spec"].get("nodeName")]

    until(lambda: len(placed()) == 3, "an agent on each node")
    return placed()


@pytest.fixture(scope="module")
def tokens(installed: Lab) -> NodeTokens:
    """With the rights that the manifests give the controller."""
    kube = Kube.connect(installed.account_kubeconfig(NAMESPACE, "surgekit-limit-allocator"))
    return NodeTokens(kube, Settings().agent_account)


def bound_to(pod: Json) -> dict[str, str]:
    """As the kubelet binds the token of a projected volume."""
    return {"apiVersion": "v1", "kind": "Pod"} | {key: pod["metadata"][key] for key in ("name", "uid")}


def of_pod(lab: Lab, pod: Json) -> str:
    return account_token(lab.kube, AGENTS, AGENT, AUDIENCE, bound_to(pod))


def test_the_manifest_asks_for_the_audience_that_the_controller_expects(installed: Lab) -> None:
    daemonset = installed.kube.get(f"/apis/apps/v1/namespaces/{AGENTS}/daemonsets/{AGENT}")
    spec = daemonset["spec"]["template"]["spec"]
    (source,) = next(v for v in spec["volumes"] if v["name"] == "token")["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == AUDIENCE


def test_each_agents_token_names_its_own_node(installed: Lab, agents: list[Json], tokens: NodeTokens) -> None:
    found = [tokens.node_of(of_pod(installed, pod)) for pod in agents]
    assert found == [pod["spec"]["nodeName"] for pod in agents]
    assert len(set(found)) == 3


def test_other_tokens_speak_for_no_node(installed: Lab, agents: list[Json], tokens: NodeTokens) -> None:
    kube, pod = installed.kube, agents[0]
    refused = {
        "names no node": account_token(kube, AGENTS, AGENT, AUDIENCE),  # bound to no pod
        "is not valid": account_token(kube, AGENTS, AGENT, "", bound_to(pod)),  # for the API server
        "is not of": account_token(kube, AGENTS, "default", AUDIENCE),
    }
    for why, token in refused.items():
        with pytest.raises(NotAnAgent, match=why):
            tokens.node_of(token)
    with pytest.raises(NotAnAgent, match="is not valid"):
        tokens.node_of(of_pod(installed, pod)[:-3] + "abc")


def test_an_agent_cannot_report_for_another_node(
    installed: Lab, agents: list[Json], tokens: NodeTokens, tmp_path: Path
) -> None:
    """Its certificate is that of all agents, its token its own."""
    directory, mounted = certificates(tmp_path / "tls")
    arrived = AgentServer(
        "127.0.0.1:0", directory, "agent", accepts=lambda: True, node_of=tokens.node_of
    ).start()
    links = []
    own, other = (pod["spec"]["nodeName"] for pod in agents[1:])
    (tmp_path / "token").write_text(of_pod(installed, agents[1]))
    try:
        for node in (other, own):
            link = Link(f"localhost:{arrived.port}", NAME, mounted, tmp_path / "token")
            link.start(lambda node=node: Hello(node=node, boot_id="b", start=1, term=0))  # type: ignore[misc]
            links.append(link)
            until(lambda: arrived.inbox.qsize() > 0, "an arrival")
            _, message = arrived.inbox.get()
            if node == other:
                assert isinstance(message, Closed)
                assert arrived.refused_total > 0
                link.stop()
                until(lambda: arrived.streams == 0, "the stream to end")
                while not arrived.inbox.empty():
                    assert isinstance(arrived.inbox.get()[1], Closed)
            else:
                assert isinstance(message, Hello)
                assert message.node == own
    finally:
        for link in links:
            link.stop()
        arrived.stop()
