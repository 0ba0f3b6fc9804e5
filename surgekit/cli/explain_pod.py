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

from surgekit.cli.custom_object import NotThere
from surgekit.kube.api_path import Resource
from surgekit.kube.client import Kube, KubeUnreachable
from surgekit.shipped_manifests import MANIFESTS
from surgekit.tls import mutual_tls

__all__ = ["ask_cluster", "ask_lab", "ask_urls", "sentences", "show_placement"]

_NAMESPACE, _EXTENDER = "surgekit-system", "surgekit-extender"
# The certificate that kube-scheduler shows: the extender answers no other name.
_CLIENT_SECRET = "surgekit-scheduler-client-tls"  # noqa: S105  # a Secret's name, not its content
_PORT = 8443
_PODS, _SECRETS = Resource("v1", "pods"), Resource("v1", "secrets")

Said = dict[str, Any]
Answer = tuple[int, bytes]


def ask_lab(lab: str, pod: str) -> Said:
    from kwok.lab import Lab
    from kwok.parts import find_extender

    part = find_extender(Lab.open(lab))
    if part is None:
        raise NotThere(f"lab {lab!r} runs no extender; `surgekit lab up` starts one")
    return _first([_answer(lambda: part.request("GET", _path(pod)), part.url)])


def ask_urls(urls: list[str], certificates: Path, pod: str) -> Said:
    def ask(url: str) -> Answer:
        return mutual_tls.request(url.rstrip("/") + _path(pod), certificates, "tls")

    return _first([_answer(partial(ask, url), url) for url in urls])


def ask_cluster(kube: Kube, pod: str) -> Said:
    """Each replica keeps its own decisions: ask them all, by port-forward with the scheduler's certificate.

    Needs the rights to list pods, get that Secret and create pods/portforward in surgekit-system.
    """
    pods, _ = kube.list_all(_PODS.path(_NAMESPACE), labelSelector=f"app.kubernetes.io/name={_EXTENDER}")
    running = [p["metadata"]["name"] for p in pods if p.get("status", {}).get("phase") == "Running"]
    if not running:
        raise NotThere(
            f"no extender runs in namespace {_NAMESPACE} of {kube.host}: "
            f"kubectl apply --server-side -k {MANIFESTS / 'overlays' / 'self-signed'} installs it; "
            "for a lab's, name the lab with --lab"
        )
    url = f"https://{_EXTENDER}.{_NAMESPACE}.svc" + _path(pod)
    with _client_certificate(kube) as directory:

        def ask(replica: str) -> Answer:
            with kube.port_forward(_NAMESPACE, replica, _PORT) as through:
                return mutual_tls.request(url, directory, "tls", through=through)

        return _first([_answer(partial(ask, replica), replica) for replica in running])


def _answer(ask: Callable[[], Answer], whom: str) -> Answer:
    """One that cannot be asked does not keep the others from answering."""
    try:
        return ask()
    except (KubeUnreachable, OSError, HTTPException) as error:
        return 0, f"{whom} did not answer: {error}".encode()


def _path(pod: str) -> str:
    return f"/explain?pod={quote(pod)}"


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


def sentences(said: Said) -> list[str]:
    """What happened, in plain words."""
    mode, chosen = said["mode"], said["bound_to"]
    ranked = [c["node"] for c in said["candidates"]]
    if not said["valid"] or not ranked:
        why = "; ".join(said["reasons"])
        return [f"{mode}: the scheduler got neutral scores, because {why}; {_chose(chosen)}"]
    best = ranked[0]
    if mode == "enforce":
        lines = [f"enforce: the scheduler was told that {best} is best; {_chose(chosen)}"]
        if chosen and chosen != best:
            place = f"number {ranked.index(chosen) + 1}" if chosen in ranked else "none"
            lines[0] += f", {place} of our {len(ranked)} best: its own scores weighed more"
    else:
        chose = f"it chose {best}, too" if chosen == best else _chose(chosen)
        lines = [f"{mode}: the scheduler got neutral scores; {best} would have been chosen; {chose}"]
    by_node = {c["node"]: c for c in said["candidates"]}
    lines.append(_reason(by_node[best]))
    if chosen in by_node and chosen != best:
        lines.append(_reason(by_node[chosen]))
    return lines


def _chose(node: str | None) -> str:
    return f"it chose {node}" if node else "it has chosen none yet, as far as the extender has seen"


def _reason(candidate: dict[str, Any]) -> str:
    count = candidate["creating"]
    alone = f"it would be created there alone, in {candidate['tau_create_s']:.2g} s"
    with_others = (
        f"{count} pods with this one would be created there at once; "
        f"alone it would take {candidate['tau_create_s']:.2g} s"
    )
    pull = candidate["image_pull_s"]
    image = f"its image takes {pull:.2g} s to pull" if pull else "no image to wait for"
    return (
        f"{candidate['node']}: Ready after about {candidate['scaling_s']:.2g} s; "
        f"{alone if count == 1 else with_others}; {image}"
    )


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
