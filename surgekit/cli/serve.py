"""`surgekit serve`: run one part in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surgekit.kube.client import Kube
from surgekit.process.settings import load

app = typer.Typer(help="Run one part in the foreground.", no_args_is_help=True)

SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="YAML file; SURGEKIT_<PART>_<KEY> overrides it.", dir_okay=False),
]
Kubeconfig = Annotated[
    Path | None, typer.Option(help="Cluster to talk to; default: the pod's own, else the current context.")
]


def _has_cluster(kubeconfig: Path | None) -> Path | None:
    """Raise NoCluster here, where it is one line, and not in a worker process of the server."""
    Kube.connect(kubeconfig)
    return kubeconfig


@app.command()
def extender(
    settings: SettingsFile = None,
    kubeconfig: Kubeconfig = None,
    bind: Annotated[str | None, typer.Option(help="Address and port to listen on.")] = None,
    health_bind: Annotated[str | None, typer.Option(help="Address and port of health and metrics.")] = None,
    tls_directory: Annotated[
        Path | None, typer.Option(help="tls.crt, tls.key and ca.crt; without it plain HTTP.")
    ] = None,
) -> None:
    """Score nodes for kube-scheduler (ComboFunc)."""
    from scheduler_extender.server import run
    from scheduler_extender.settings import Settings

    given = load(Settings, settings, bind=bind, health_bind=health_bind, tls_directory=tls_directory)
    run(given, _has_cluster(kubeconfig))


@app.command()
def probe(settings: SettingsFile = None, kubeconfig: Kubeconfig = None) -> None:
    """Measure how fast each node creates containers and publish it as NodeSpeed objects."""
    from node_speed_probe.controller import run
    from node_speed_probe.settings import Settings

    run(load(Settings, settings), _has_cluster(kubeconfig))


@app.command()
def expander(
    settings: SettingsFile = None,
    catalogue: Annotated[Path | None, typer.Option(help="Classes and prices; read again on change.")] = None,
    bind: Annotated[str | None, typer.Option(help="Address and port of the gRPC service.")] = None,
    health_bind: Annotated[str | None, typer.Option(help="Address and port of health and metrics.")] = None,
    tls_directory: Annotated[
        Path | None, typer.Option(help="tls.crt and tls.key; Cluster Autoscaler wants them.")
    ] = None,
) -> None:
    """Choose node groups for Cluster Autoscaler (FCMA)."""
    from cluster_autoscaler_hook.expander.server import run
    from cluster_autoscaler_hook.expander.settings import Settings

    run(
        load(
            Settings,
            settings,
            catalogue=catalogue,
            bind=bind,
            health_bind=health_bind,
            tls_directory=tls_directory,
        )
    )


@app.command()
def node_planner(settings: SettingsFile = None, kubeconfig: Kubeconfig = None) -> None:
    """Plan nodes for pods that opted in and rent them through Karpenter (FCMA)."""
    from cluster_autoscaler_hook.karpenter.controller import run
    from cluster_autoscaler_hook.karpenter.settings import Settings

    run(load(Settings, settings), _has_cluster(kubeconfig))


@app.command()
def kneescale(settings: SettingsFile = None, kubeconfig: Kubeconfig = None) -> None:
    """Decide how many replicas the targets of KneePolicies are worth (KneeScale)."""
    from hpa_replacement.controller import run
    from hpa_replacement.settings import Settings

    run(load(Settings, settings), _has_cluster(kubeconfig))


@app.command()
def adapter(
    settings: SettingsFile = None,
    kubeconfig: Kubeconfig = None,
    bind: Annotated[str | None, typer.Option(help="Address and port to listen on.")] = None,
    health_bind: Annotated[str | None, typer.Option(help="Address and port of health and metrics.")] = None,
    tls_directory: Annotated[Path | None, typer.Option(help="tls.crt and tls.key.")] = None,
) -> None:
    """Serve the targets of KneePolicies to the stock HPA as external and custom metrics (KneeScale)."""
    from hpa_replacement.adapter.server import run
    from hpa_replacement.adapter.settings import Settings

    given = load(Settings, settings, bind=bind, health_bind=health_bind, tls_directory=tls_directory)
    run(given, _has_cluster(kubeconfig))


@app.command()
def burst_controller(settings: SettingsFile = None, kubeconfig: Kubeconfig = None) -> None:
    """Direct emergency instances and scale regular ones for BurstFunctions (PulseNet)."""
    from burst_plane.controller import run
    from burst_plane.settings import Settings

    run(load(Settings, settings), _has_cluster(kubeconfig))


@app.command()
def burst_placement(settings: SettingsFile = None) -> None:
    """Choose nodes for emergency instances, beside HAProxy (PulseNet)."""
    from burst_plane.placement.controller import run
    from burst_plane.placement.settings import Settings

    run(load(Settings, settings))


@app.command()
def combofunc(settings: SettingsFile = None, kubeconfig: Kubeconfig = None) -> None:
    """Carry out ComboFuncs and InPlaceDeployments (ComboFunc)."""
    from combofunc.controller import run
    from combofunc.settings import Settings

    run(load(Settings, settings), _has_cluster(kubeconfig))


@app.command()
def limit_agent(settings: SettingsFile = None) -> None:
    """Report what a node's containers use, and write their limits (Escra)."""
    from limit_allocator.agent.controller import run
    from limit_allocator.agent.settings import Settings

    run(load(Settings, settings))


@app.command()
def limit_allocator(settings: SettingsFile = None, kubeconfig: Kubeconfig = None) -> None:
    """Allot CPU and memory limits to the containers of DistributedContainers (Escra)."""
    from limit_allocator.controller import run
    from limit_allocator.settings import Settings

    run(load(Settings, settings), _has_cluster(kubeconfig))


@app.command()
def pulselet(settings: SettingsFile = None) -> None:
    """Start emergency instances on a node, beside its kubelet (PulseNet)."""
    from burst_plane.agent.controller import run
    from burst_plane.agent.settings import Settings

    run(load(Settings, settings))


@app.command("load-balancer")
def load_balancer(
    settings: SettingsFile = None,
    kubeconfig: Kubeconfig = None,
    write_configuration: Annotated[
        bool, typer.Option("--write-configuration", help="Write what HAProxy is started with, and end.")
    ] = False,
) -> None:
    """Tell the HAProxy beside it of ComboFuncs' pods and what each can take."""
    from function_gateway.configuration import write
    from function_gateway.controller import run
    from function_gateway.settings import Settings

    loaded = load(Settings, settings)
    if write_configuration:
        write(loaded)
    else:
        run(loaded, _has_cluster(kubeconfig))
