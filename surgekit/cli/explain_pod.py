"""`surgekit explain pod`: asks the extender about a pod; says it in sentences, then in terms."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from cluster_model.placement_words import sentences
from surgekit.cli.custom_object import NotThere
from surgekit.kube.api_path import Resource
from surgekit.kube.client import Kube, KubeUnreachable
from surgekit.shipped_manifests import MANIFESTS
from surgekit.tls import mutual_tls

__all__ = [
    "ask_cluster", "ask_lab", "ask_urls", "recent_in_cluster", "recent_in_lab", "show_placement",
]  # fmt: skip

_NAMESPACE, _EXTENDER = "surgekit-system", "surgekit-extender"
# The certificate that kube-scheduler shows: the extender answers no other name.
_CLIENT_SECRET = "surgekit-scheduler-client-tls"  # noqa: S105  # a Secret's name, not its content
_PORT = 8443
_PODS, _SECRETS = Resource("v1", "pods"), Resource("v1", "secrets")

Said = dict[str, Any]
Answer = tuple[int, bytes]


def ask_lab(lab: str, pod: str) -> Said:
    return _first(_lab_answers(lab, _path(pod)))


def ask_urls(urls: list[str], certificates: Path, pod: str) -> Said:
    def ask(url: str) -> Answer:
        return mutual_tls.request(url.rstrip("/") + _path(pod), certificates, "tls")

    return _first([_answer(partial(ask, url), url) for url in urls])


def ask_cluster(kube: Kube, pod: str) -> Said:
    """Needs the rights to list pods, get that Secret and create pods/portforward in surgekit-system."""
    return _first(_cluster_answers(kube, _path(pod)))


def recent_in_lab(lab: str, since_s: float) -> list[Said]:
    """The extender's decisions after this Unix time."""
    return _together(_lab_answers(lab, f"/explain?since={since_s:.3f}"))


def recent_in_cluster(kube: Kube, since_s: float) -> list[Said]:
    return _together(_cluster_answers(kube, f"/explain?since={since_s:.3f}"))


def _lab_answers(lab: str, path: str) -> list[Answer]:
    from kwok.lab import Lab
    from kwok.parts import find_extender

    part = find_extender(Lab.open(lab))
    if part is None:
        raise NotThere(f"lab {lab!r} runs no extender; `surgekit lab up` starts one")
    return [_answer(lambda: part.request("GET", path), part.url)]


def _cluster_answers(kube: Kube, path: str) -> list[Answer]:
    """Each replica keeps its own decisions: ask all, by port-forward with the scheduler's certificate."""
    pods, _ = kube.list_all(_PODS.path(_NAMESPACE), labelSelector=f"app.kubernetes.io/name={_EXTENDER}")
    running = [p["metadata"]["name"] for p in pods if p.get("status", {}).get("phase") == "Running"]
    if not running:
        raise NotThere(
            f"no extender runs in namespace {_NAMESPACE} of {kube.host}: "
            f"kubectl apply --server-side -k {MANIFESTS / 'overlays' / 'self-signed'} installs it; "
            "for a lab's, name the lab with --lab"
        )
    url = f"https://{_EXTENDER}.{_NAMESPACE}.svc" + path
    with _client_certificate(kube) as directory:

        def ask(replica: str) -> Answer:
            with kube.port_forward(_NAMESPACE, replica, _PORT) as through:
                return mutual_tls.request(url, directory, "tls", through=through)

        return [_answer(partial(ask, replica), replica) for replica in running]


def _answer(ask: Callable[[], Answer], whom: str) -> Answer:
    """One that cannot be asked does not keep the others from answering."""
    try:
        return ask()
    except (KubeUnreachable, OSError, HTTPException) as error:
        return 0, f"{whom} did not answer: {error}".encode()


def _path(pod: str) -> str:
    return f"/explain?pod={quote(pod)}"


def _together(answers: list[Answer]) -> list[Said]:
    heard = [json.loads(body)["decisions"] for status, body in answers if status == 200]
    if not heard:
        raise NotThere("; ".join(dict.fromkeys(_refusal(body) for _, body in answers)))
    return [said for decisions in heard for said in decisions]


def _first(answers: list[Answer]) -> Said:
    for status, body in answers:
        if status == 200:
            found: Said = json.loads(body)
            return found
    raise NotThere("; ".join(dict.fromkeys(_refusal(body) for _, body in answers)))


def _refusal(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()


@contextmanager
def _client_certificate(kube: Kube) -> Iterator[Path]:
    """As files, which is how Python's ssl takes a key; gone again afterwards."""
    secret = kube.get(_SECRETS.path(_NAMESPACE, _CLIENT_SECRET))
    with tempfile.TemporaryDirectory(prefix="surgekit-") as name:
        directory = Path(name)  # readable by its owner only
        for file in ("ca.crt", "tls.crt", "tls.key"):
            (directory / file).write_bytes(base64.b64decode(secret["data"][file]))
        yield directory


def show_placement(said: Said, console: Console) -> None:
    asked = said["pod"]
    console.print(f"{asked['namespace']}/{asked['name']}", style="bold", highlight=False, markup=False)
    for sentence in sentences(said):
        console.print(f"  {sentence}", highlight=False, markup=False, soft_wrap=True)
    when = datetime.fromtimestamp(said["decided_at"], UTC).strftime("%H:%M:%S.%f")[:-3]
    ages = ", ".join(f"{source} {age:.1f} s" for source, age in said["inputs_age_s"].items())
    console.print(
        f"\nThe terms: {asked['cpu_millicores']:g}m cpu and {asked['memory_bytes'] / 2**20:g} MiB asked for, "
        f"{said['nodes_offered']} nodes offered at {when} UTC; {'; '.join(said['reasons'])}; "
        f"lambda {said['price_weight']:g} s per priced unit, x {said['price_swing']:g}; inputs: {ages} old",
        highlight=False,
        markup=False,
    )
    table = Table(
        *("node", "score", "D/Q", "S (s)", "tau (s)", "k", "pull", "B", "beta_c", "beta_m", "bound"),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for column in table.columns:
        column.no_wrap = True
    for c in said["candidates"]:
        times = (c["cost"], c["scaling_s"], c["tau_create_s"])
        prices = (c["image_pull_s"], c["resource_price"], c["cpu_price"], c["memory_price"])
        table.add_row(
            c["node"],
            str(c["score"]),
            *(f"{v:.3f}" for v in times),
            str(c["creating"]),
            *(f"{v:.2f}" for v in prices),
            "here" if c["node"] == said["bound_to"] else "",
        )
    console.print(table)
