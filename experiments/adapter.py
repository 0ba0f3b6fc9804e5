"""How long does a metric GET take with many policies, directly and through kube-apiserver?

Meanwhile each target is rewritten every 30 s, as the controller would do.
"""

from __future__ import annotations

import http.client
import ssl
import statistics
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml

from hpa_replacement.adapter.discovery import CUSTOM, EXTERNAL, VERSIONS
from hpa_replacement.adapter.registration import Service, register
from kwok import parts
from kwok.lab import Lab
from kwok.ports import answers_ready
from surgekit.kube.conditions import stamp
from surgekit.tls import ensure

__all__ = ["run"]

_INTERVAL_S = 30.0
_ADAPTER = "surgekit-adapter"
_POLICIES = "/apis/surgekit.dev/v1alpha1/namespaces/{}/kneepolicies"


def run(policies: int, namespaces: int, requests: int, say: Callable[[str], None]) -> dict[str, Any]:
    with Lab.temporary("adapter", instant_pods=True, time_factor=1.0) as lab:
        say("lab: control plane, the adapter")
        parts.install(lab)
        parts.install_kneescale(lab)
        certificates, port = _start(lab)
        say(f"{policies} policies in {namespaces} namespaces")
        names = _policies(lab, policies, namespaces)
        stop = threading.Event()
        writer = threading.Thread(target=_write, args=(lab, names, stop))
        writer.start()
        try:
            say(f"{requests} requests a way")
            ways = _measure(lab, certificates, port, names, requests)
        finally:
            stop.set()
            writer.join()
    return {"policies": policies, "requests": requests, "p99_ms": ways["direct"]["p99_ms"], "ways": ways}


def _start(lab: Lab) -> tuple[Path, int]:
    """Start the adapter under its own account, registered through an ExternalName Service."""
    parts.apply_manifests(lab, parts.MANIFESTS / "adapter")
    service = {
        "metadata": {"name": _ADAPTER},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    lab.kube.create(f"/api/v1/namespaces/{parts.NAMESPACE}/services", service)
    certificates, port, health_port = lab.directory / "tls" / "adapter", lab.free_port(), lab.free_port()
    ensure(certificates, [f"{_ADAPTER}.{parts.NAMESPACE}.svc", "localhost"], [], datetime.now(UTC))
    settings = lab.directory / "adapter.settings.yaml"
    bind = {
        "bind": f"127.0.0.1:{port}",
        "health_bind": f"127.0.0.1:{health_port}",
        "tls_directory": str(certificates),
    }
    settings.write_text(yaml.safe_dump(bind))
    account = lab.account_kubeconfig(parts.NAMESPACE, _ADAPTER)
    command: list[str | Path] = [
        "-m",
        "surgekit",
        "serve",
        "adapter",
        "--settings",
        settings,
        "--kubeconfig",
        account,
    ]
    lab.start("adapter", [sys.executable, *command], ready=lambda: answers_ready(health_port), port=port)
    groups = (EXTERNAL, CUSTOM)
    register(lab.kube, groups, Service(port=port), (certificates / "ca.crt").read_bytes())
    lab.wait_for(lambda: all(_available(lab, group) for group in groups), "the metrics APIs", 60)
    return certificates, port


def _available(lab: Lab, group: str) -> bool:
    found = lab.kube.get(f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSIONS[group]}.{group}")
    conditions = (found.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)


def _make(lab: Lab, namespace: str, name: str) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"scaleTargetRef": target, "maxReplicas": 100, "mode": "enforce", "via": "metrics"}
    policy = {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": "KneePolicy",
        "metadata": {"name": name},
        "spec": spec,
    }
    lab.kube.create(_POLICIES.format(namespace), policy)
    _set_target(lab, namespace, name, 21)


def _set_target(lab: Lab, namespace: str, name: str, replicas: int) -> None:
    status = {"targetReplicas": replicas, "decidedAt": stamp(time.time())}
    lab.kube.patch(f"{_POLICIES.format(namespace)}/{name}/status", {"status": status})


def _policies(lab: Lab, count: int, namespaces: int) -> list[tuple[str, str]]:
    names = [(f"ns-{i % namespaces}", f"p-{i}") for i in range(count)]
    with ThreadPoolExecutor(8) as pool:
        spaces = sorted({namespace for namespace, _ in names})
        list(pool.map(lambda n: lab.kube.create("/api/v1/namespaces", {"metadata": {"name": n}}), spaces))
        list(pool.map(lambda n: _make(lab, n[0], n[1]), names))
    return names


def _write(lab: Lab, names: list[tuple[str, str]], stop: threading.Event) -> None:
    i = 0
    while not stop.wait(_INTERVAL_S / len(names)):
        namespace, name = names[i % len(names)]
        _set_target(lab, namespace, name, 20 + i // len(names) % 2)
        i += 1


def _measure(
    lab: Lab, certificates: Path, port: int, names: list[tuple[str, str]], requests: int
) -> dict[str, Any]:
    proxy = lab.directory / "tls" / "front-proxy" / "front-proxy-client"
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    context.load_cert_chain(proxy.with_suffix(".crt"), proxy.with_suffix(".key"))
    connection = http.client.HTTPSConnection("localhost", port, context=context)
    headers = {
        "X-Remote-User": "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
        "X-Remote-Group": "system:masters",
    }

    def direct(path: str, selector: str) -> None:
        connection.request("GET", f"{path}?{urlencode({'labelSelector': selector})}", headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")

    def through(path: str, selector: str) -> None:
        lab.kube.get(path, labelSelector=selector)

    found = {
        # Access reviews are not cached yet.
        "direct_first": _summary(_times_ms(direct, names, len(names))),
        "direct": _summary(_times_ms(direct, names, requests)),
        "direct_every_15_ms": _summary(_times_ms(direct, names, requests // 5, 0.015)),
        "through_api_server": _summary(_times_ms(through, names, requests)),
    }
    connection.close()
    return found


def _times_ms(
    get: Callable[[str, str], None], names: list[tuple[str, str]], count: int, pause_s: float = 0.0
) -> list[float]:
    times = []
    for i in range(count):
        namespace, name = names[i * 7 % len(names)]
        path = f"/apis/{EXTERNAL}/v1beta1/namespaces/{namespace}/knee-replicas"
        begin_s = time.perf_counter()
        get(path, f"policy={name}")
        times.append((time.perf_counter() - begin_s) * 1e3)
        if pause_s:
            time.sleep(pause_s)
    return times


def _summary(times_ms: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(times_ms, n=1000, method="inclusive")
    figures = {"p50_ms": cuts[499], "p99_ms": cuts[989], "p999_ms": cuts[998], "max_ms": max(times_ms)}
    return {key: round(value, 2) for key, value in figures.items()}
