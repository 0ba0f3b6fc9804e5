"""`surgekit lab`: bring an emulated cluster up, look at it, take it down."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from kwok import parts
from kwok.errors import LabError
from kwok.lab import Lab
from kwok.network_namespace import entering
from kwok.scenario import Scenario
from surgekit.cli.json_file import JsonFile, write_json

__all__ = ["PARTS", "app"]

app = typer.Typer(no_args_is_help=True, help="An emulated cluster with a real control plane.")

DEFAULT = "default"
Name = Annotated[str, typer.Argument(help="Which lab; several can live side by side.")]
LabOption = Annotated[str, typer.Option("--lab", help="Which lab.")]


@dataclass
class Plan:
    """What `up` was asked for, and what parts tell those after them."""

    nodes: tuple[str, ...]
    seed: int
    real_nodes: int
    kubelet_port: int | None = None  # of the emulated nodes, where something plays their kubelets
    prometheus_url: str = ""


Start = Callable[[Lab, Plan], object]
# What runs in a lab, in the order it is started. A new part of surgekit joins the lab here.
PARTS: list[tuple[str, Start]] = [
    ("manifests", lambda lab, _: parts.install(lab)),
    ("node model", lambda lab, plan: lab.start_node_model(Scenario.draw(plan.seed, plan.nodes))),
    ("probe", lambda lab, _: parts.start_probe(lab)),
    ("extender and kube-scheduler", lambda lab, _: _start_scheduling(lab)),
    ("ComboFunc's controller", lambda lab, _: _start_combofunc(lab)),
]


def _start_scheduling(lab: Lab) -> None:
    """The default scheduler asks the extender for pods that opted in (surgekit.dev/placement)."""
    lab.start_scheduler({"extenders": [parts.start_extender(lab).scheduler_entry(parts.WEIGHT)]})


def _start_combofunc(lab: Lab) -> None:
    """For ComboFuncs and InPlaceDeployments."""
    parts.install_combofunc(lab)
    parts.start_combofunc(lab)


def _start_traffic(lab: Lab, plan: Plan) -> None:
    from kwok.traffic import lab_traffic

    plan.prometheus_url = lab_traffic.start(lab)


def _start_kneescale(lab: Lab, plan: Plan) -> None:
    from kwok.traffic import lab_traffic

    parts.install_kneescale(lab)
    settings = {"prometheus_url": plan.prometheus_url, "scrape_interval_s": lab_traffic.SCRAPE_S}
    parts.start_kneescale(lab, settings)


def _start_real_nodes(lab: Lab, plan: Plan) -> None:
    from kwok import real_node

    real_node.start(lab, plan.real_nodes)


def _start_limits(lab: Lab, plan: Plan) -> None:
    parts.start_limits(lab, range(plan.real_nodes))


def _start_burst(lab: Lab, _: Plan) -> None:
    from kwok.burst import plane

    plane.start(lab)
    lab.apply(plane.EXAMPLE)


def _start_knative(lab: Lab, plan: Plan) -> None:
    from kwok import knative

    plan.prometheus_url = knative.start(lab, plan.kubelet_port).prometheus_url
    lab.apply(knative.EXAMPLE)


# What --with adds, in this order. KneeScale reads what Prometheus has seen of the traffic. Only containers on
# real nodes have limits.
TRAFFIC, KNEESCALE, REAL_NODE, LIMITS, BURST = "traffic", "kneescale", "real-node", "limits", "burst"
KNATIVE = "knative"
EXTRAS: dict[str, Start] = {
    TRAFFIC: _start_traffic, KNEESCALE: _start_kneescale, REAL_NODE: _start_real_nodes, LIMITS: _start_limits,
    BURST: _start_burst, KNATIVE: _start_knative,
}  # fmt: skip
_NEEDS = {KNEESCALE: TRAFFIC, LIMITS: REAL_NODE}


@app.command()
def up(
    name: Name = DEFAULT,
    nodes: Annotated[int, typer.Option(min=1, help="How many emulated nodes.")] = 16,
    seed: Annotated[int, typer.Option(help="Draws the nodes' speeds.")] = 1,
    extras: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="traffic,kneescale,real-node,limits,burst,knative",
            help="Also: functions, clients that call them and Prometheus (as root); KneeScale on top; nodes "
            "with a real kubelet and containerd (as root); Escra on these; PulseNet (as root, not with "
            "traffic); stock Knative, metrics-server and Prometheus (as root, not with traffic or burst).",
        ),
    ] = "",
    real_nodes: Annotated[int, typer.Option(min=1, help="How many nodes --with real-node adds.")] = 1,
    json_file: JsonFile = None,
) -> None:
    """Bring a lab up: control plane, nodes and their model, probe, extender, scheduler, ComboFunc."""
    console = Console(stderr=True, soft_wrap=True)
    started_s, more = time.monotonic(), _extras(extras)
    time_factor = _time_factor(more)
    if REAL_NODE in more:
        _check_real_node()
    if BURST in more:
        _check_burst(more)
    if KNATIVE in more:
        _check_knative(more)
    with console.status("control plane") as status:

        def prepare(lab: Lab) -> None:
            status.update(f"{nodes} nodes")
            kubelet_port = lab.free_port() if KNATIVE in more else None
            names = lab.add_nodes(nodes, kubelet_port=kubelet_port)
            plan = Plan(tuple(names), seed, real_nodes, kubelet_port)
            for part, start in [*PARTS, *((extra, EXTRAS[extra]) for extra in more)]:
                status.update(part)
                start(lab, plan)

        own_network = bool({REAL_NODE, KNATIVE} & set(more))
        lab = Lab.up(name, prepare=prepare, time_factor=time_factor, own_network=own_network)
    if write_json(asdict(_look(name)), json_file):
        return
    console.print(f"lab [bold]{name}[/bold] is up in {time.monotonic() - started_s:.1f} s: {nodes} nodes")
    for line in _directions(lab, more):
        console.print(f"  {line}", highlight=False, markup=False)


def _extras(text: str) -> list[str]:
    """In the order they are started, with what they need."""
    asked = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := sorted(asked - EXTRAS.keys()):
        raise typer.BadParameter(f"{unknown[0]!r}: must be one of {', '.join(EXTRAS)}", param_hint="--with")
    asked |= {_NEEDS[extra] for extra in asked & _NEEDS.keys()}
    return [extra for extra in EXTRAS if extra in asked]


def _time_factor(extras: list[str]) -> float:
    """How fast the lab is to run; traffic that cannot flow here is refused at once."""
    if TRAFFIC not in extras:
        return 1.0
    from kwok.traffic import lab_traffic

    lab_traffic.check()
    return lab_traffic.TIME_FACTOR


def _check_real_node() -> None:
    """Raise LabError if no real node can run on this machine, before anything is started."""
    from kwok.real_node import why_no_real_node

    if reason := why_no_real_node():
        raise LabError(f"--with {REAL_NODE}: {reason}")


def _check_burst(extras: list[str]) -> None:
    """Raise before anything is started."""
    from kwok.burst import plane

    if TRAFFIC in extras:
        raise typer.BadParameter(f"{TRAFFIC} and {BURST}: each has its own gateway", param_hint="--with")
    plane.check()


def _check_knative(extras: list[str]) -> None:
    """Raise before anything is started."""
    from kwok import knative

    if {TRAFFIC, BURST} & set(extras):
        raise typer.BadParameter(f"{KNATIVE}: not with {TRAFFIC} or {BURST}", param_hint="--with")
    if reason := knative.why_no_knative():
        raise LabError(f"--with {KNATIVE}: {reason}")


def _directions(lab: Lab, extras: list[str]) -> list[str]:
    """What to type next. Every command can be pasted as it is, whatever the current context is."""
    surgekit = _this_program()
    named = "" if lab.name == DEFAULT else f"--lab {lab.name} "
    kubectl = f"{surgekit} lab kubectl {named}--"
    combofunc = parts.MANIFESTS / "combofunc" / "examples" / "replicas.yaml"
    lines = [
        f"logs        {lab.directory / 'logs'}",
        f"kubectl     {kubectl} get pods --all-namespaces",
        f"or          export KUBECONFIG={lab.kubeconfig}",
        f"look        {surgekit} ui --lab {lab.name}",
        f"opt in      {kubectl} label namespace default surgekit.dev/placement=enforce",
        f"try         {kubectl} apply -f {combofunc}",
        f"            {kubectl} get combofuncs,pods",
        f"            {surgekit} explain combofunc default/thumbnails --lab {lab.name}",
    ]
    if KNEESCALE in extras:
        policy = parts.MANIFESTS / "kneescale" / "examples" / "lab.yaml"
        lines += [
            f"a knee      {kubectl} apply -f {policy}",
            f"            {kubectl} get kneepolicies --namespace functions --watch",
            f"            {surgekit} explain scale functions/float-operation --lab {lab.name}",
        ]
    if REAL_NODE in extras:
        from kwok.real_node import EXAMPLE

        lines += [
            f"a real pod  {kubectl} apply -f {EXAMPLE}",
            f"            {surgekit} lab inside {named}-- curl -s http://10.96.0.80/",
        ]
    if LIMITS in extras:
        lines += [
            f"limits      {kubectl} apply -f {parts.LIMITS_EXAMPLE}",
            f"            {surgekit} explain limits default/shop --lab {lab.name}",
        ]
    if BURST in extras:
        from kwok.burst import plane

        lines += [
            f"a burst     {surgekit} lab load hello 5 {named}".rstrip(),
            f"            {kubectl} get burstfunctions --watch",
            f"            {surgekit} explain burst default/hello --lab {lab.name}",
            f"by hand     curl -H 'Host: hello.default' {plane.url(lab)}",
        ]
    if KNATIVE in extras:
        from kwok import knative

        serving = knative.find(lab)
        assert serving  # noqa: S101  # just started
        lines += [
            f"functions   {kubectl} get ksvc,podautoscalers,pods",
            f"load        {surgekit} lab load hello 40 {named}".rstrip(),
            f"by hand     curl -H 'Host: hello.default.{knative.DOMAIN}' {serving.url}",
            f"metrics     {serving.prometheus_url}",
        ]
    if TRAFFIC in extras:
        lines.append(f"more load   {surgekit} lab load float-operation 40 {named}".rstrip())
    return [*lines, f"end it      {surgekit} lab down {'' if lab.name == DEFAULT else lab.name}".rstrip()]


def _this_program() -> str:
    """As the user's shell finds it: by name where it is on the PATH, else as it was called."""
    called, found = Path(sys.argv[0]), shutil.which("surgekit")
    if found and called.name == "surgekit" and called.exists() and called.samefile(found):
        return "surgekit"
    return str(called) if called.name == "surgekit" else f"{sys.executable} -m surgekit"


@app.command(context_settings={"ignore_unknown_options": True})
def kubectl(
    arguments: Annotated[list[str], typer.Argument(metavar="-- ARGUMENTS", help="What kubectl is told.")],
    lab: LabOption = DEFAULT,
) -> None:
    """Run the lab's kubectl on the lab, whatever your current context is."""
    opened = Lab.open(lab)
    program = opened.binaries.path("kubectl")
    environ = os.environ | {"KUBECONFIG": str(opened.kubeconfig)}
    # In place of this process: signals, terminal and exit code are kubectl's own.
    os.execve(program, ["kubectl", *arguments], environ)  # noqa: S606  # no shell is wanted


@app.command(context_settings={"ignore_unknown_options": True})
def inside(
    arguments: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="What to run.")],
    lab: LabOption = DEFAULT,
) -> None:
    """Run a command in the network of a lab with real nodes: it reaches pods and Services."""
    enter = entering(Lab.open(lab).directory)
    if not enter:
        raise LabError(f"lab {lab!r} has no network of its own: `surgekit lab up --with {REAL_NODE}`")
    os.execvp(enter[0], [*enter, *arguments])  # noqa: S606  # no shell is wanted


@app.command()
def load(
    function: Annotated[
        str,
        typer.Argument(
            help="A function of --with traffic or burst: float-operation, hello ...; a Service of "
            "--with knative: NAME or NAMESPACE/NAME."
        ),
    ],
    clients: Annotated[
        int, typer.Argument(min=0, max=1000, help="Clients that call it, each one request after the other.")
    ],
    lab: LabOption = DEFAULT,
) -> None:
    """Change how many clients call a function of a lab with traffic."""
    from kwok import knative
    from kwok.traffic import lab_traffic

    opened = Lab.open(lab)
    if serving := knative.find(opened):
        serving.set_clients(function, clients)
    else:
        lab_traffic.set_clients(opened, function, clients)


@app.command()
def image(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which images; without names: surgekit.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Build container images without a registry, as OCI archives for `ctr images import`."""
    from kwok import images

    built = []
    for name in names or ["surgekit"]:
        started_s = time.monotonic()
        with Console(stderr=True).status(f"building {name}"):
            archive = images.build(name)
        size_mb = round(archive.stat().st_size / 1e6, 1)
        took_s = round(time.monotonic() - started_s, 1)
        built.append(
            {"reference": images.reference(name), "archive": archive, "size_mb": size_mb, "took_s": took_s}
        )
    if write_json(built, json_file):
        return
    for row in built:  # lines, not a table: an archive's path is there to be copied
        typer.echo(f"{row['reference']}  {row['size_mb']} MB  {row['took_s']} s  {row['archive']}")


@app.command()
def status(json_file: JsonFile = None) -> None:
    """Show the labs on this machine."""
    views = [_look(name) for name in Lab.names()]
    if write_json([asdict(view) for view in views], json_file):
        return
    table = Table("lab", "state", "nodes", "pods", "processes", "kubeconfig")
    for view in views:
        processes = ", ".join(f"{n}{'' if alive else ' (dead)'}" for n, alive in view.processes.items())
        table.add_row(view.name, view.state, str(view.nodes), str(view.pods), processes, str(view.kubeconfig))
    Console().print(table if views else "no labs; `surgekit lab up` makes one")


@app.command()
def down(name: Name = "default") -> None:
    """Take one lab down, whole or broken, and remove its directory."""
    # One at a time, by name: labs of other people and other sessions share the directory.
    Console(stderr=True, soft_wrap=True).print(
        f"lab {name} is down" if Lab.remove(name) else f"there was no lab {name}"
    )


@dataclass(frozen=True)
class LabView:
    """A lab as `status` shows it."""

    name: str
    state: str
    nodes: int
    pods: int
    processes: dict[str, bool]
    kubeconfig: Path
    logs: Path


def _look(name: str) -> LabView:
    directory = Lab.directory_of(name)
    try:
        lab = Lab.open(name)
        processes = {process.name: process.alive() for process in lab.processes.all()}
        nodes, pods = (len(lab.kube.list_all(f"/api/v1/{kind}")[0]) for kind in ("nodes", "pods"))
        state = "up" if all(processes.values()) else "degraded"
    except LabError:
        state, nodes, pods, processes = "broken", 0, 0, {}
    return LabView(name, state, nodes, pods, processes, directory / "kubeconfig", directory / "logs")
