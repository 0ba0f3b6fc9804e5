"""`surgekit bench`: experiments that compare with the baseline in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from cluster_autoscaler_hook.solver.variant import DEFAULT_DEADLINE_S
from experiments.intervals import in_words
from experiments.results.about import write_figures
from experiments.seeds import REPORTED, Seeds, parse_seeds
from kwok.errors import LabError
from kwok.parts import WEIGHT
from surgekit.cli.json_file import JsonFile, takes_output

__all__ = ["app", "show"]

app = typer.Typer(no_args_is_help=True, help="Experiments: ours and the baseline alternate on one lab.")

# The FCMA authors' problems are no part of this repository: their folder is named with --data.
FCMA_DATA = Path("fcma-data")

Trace = Annotated[
    Path | None,
    typer.Option("--trace", help="Folder of an Azure trace sample; default: the extract shipped."),
]
Weight = Annotated[int, typer.Option(min=1, help="The extender's weight in the scheduler's configuration.")]


@app.command()
def extender(
    nodes: Annotated[int, typer.Option(min=2, help="Emulated nodes.")] = 1000,
    pods: Annotated[int, typer.Option(min=10, help="Pods waiting when the scheduler starts.")] = 2000,
    rounds: Annotated[int, typer.Option(min=1, help="Each measures all arms once.")] = 9,
    quick: Annotated[bool, typer.Option(help="Half the pods, two rounds.")] = False,
    weight: Weight = WEIGHT,
    probe: Annotated[bool, typer.Option(help="Run the probe as well, in every arm.")] = False,
    json_file: JsonFile = None,
) -> None:
    """How much of kube-scheduler's speed is left with the extender."""
    from experiments.extender import Extent, run

    if quick:
        pods, rounds = pods // 2, min(rounds, 2)
    show(run(Extent(nodes, pods, rounds, weight, probe), progress()), json_file)


@app.command()
def placement(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds with nodes of different speeds.")] = 7,
    equal_rounds: Annotated[int, typer.Option(min=0, help="Rounds with equal nodes.")] = 3,
    quick: Annotated[bool, typer.Option(help="Three rounds and two.")] = False,
    weight: Weight = WEIGHT,
    step_s: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds between changes of a node's speed; default 60.")
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(min=0.0, max=2.0, help="Standard deviation of ln(seconds a container); default 0.34."),
    ] = None,
    seeds: Seeds = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="In virtual time: the gain over --step-s and --spread.")
    ] = False,
    json_file: JsonFile = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture there: of the first round, or of the curves.")
    ] = None,
) -> None:
    """How much sooner a scale-out is Ready with the extender."""
    drawn = parse_seeds(seeds) if seeds else None
    if simulated:
        from experiments.placement import curves

        axes = curves.Axes.quick() if quick else curves.Axes()
        if step_s is not None or spread is not None:
            axes = replace(axes, steps_s=[step_s or axes.default_step_s], spreads=(),
                           default_spread=axes.default_spread if spread is None else spread)  # fmt: skip
        found = curves.run(replace(axes, seeds=drawn) if drawn else axes, progress())
        if not takes_output(json_file):
            Console().print(curves.table(found))
        if plot:
            from experiments.plots import placement_curves

            placement_curves(found["points"], plot)
        write_figures(found, json_file)
        return
    from experiments.placement.bench import Plan, run

    if quick:
        rounds, equal_rounds = min(rounds, 3), min(equal_rounds, 2)
    from kwok.scenario import SPREAD, Walk

    walk = Walk.of_spread(SPREAD if spread is None else spread, step_s or Walk.step_s)
    figures = run(Plan(drawn or REPORTED[:rounds], REPORTED[:equal_rounds], weight, walk), progress())
    if plot:
        from experiments.plots import placement_plot

        placement_plot(figures["rounds"][0], plot)
    show(figures, json_file)


@app.command("node-model")
def node_model(
    quick: Annotated[
        bool, typer.Option("--quick", help="Within 15 minutes: 2 rounds to fit, 2 held out.")
    ] = False,
    pulls_only: Annotated[bool, typer.Option("--pulls-only", help="Measure image pulls only.")] = False,
    json_file: JsonFile = None,
) -> None:
    """How far the emulation of a node is from a real one: creations, resizes and image pulls."""
    from experiments.kneescale.command import partial_of
    from experiments.node_model.bench import run
    from experiments.node_model.plan import Plan

    figures = run(Plan.quick() if quick else Plan(), partial_of(json_file), progress(), pulls_only)
    if not takes_output(json_file):
        from experiments.node_model.tables import cells_table, pulls_table

        if not pulls_only:
            Console().print(cells_table(figures))
        Console().print(pulls_table(figures["image_pull"]))
    if pulls_only:
        write_figures(figures, json_file)
    else:
        show(figures, json_file)


@app.command()
def fcma(
    problem_set: Annotated[
        Literal["paper80", "scalability"], typer.Option("--set", help="The paper's scenarios.")
    ] = "paper80",
    data: Annotated[Path, typer.Option(help="Folder with the sets and their recorded figures.")] = FCMA_DATA,
    random: Annotated[
        int,
        typer.Option(min=0, help="So many fresh problems for each seed; variant paper is the reference."),
    ] = 0,
    seeds: Seeds = None,
    deadline: Annotated[float, typer.Option(min=0, help="Seconds a problem.")] = DEFAULT_DEADLINE_S,
    paper_deadline: Annotated[float, typer.Option(min=0, help="Seconds a problem for variant paper.")] = 60.0,
    skip_paper: Annotated[bool, typer.Option("--skip-paper", help="Leave variant paper out.")] = False,
    recycling: Annotated[
        bool,
        typer.Option("--recycling", help="Solve each again with 20 % more load: the node-recycling metric."),
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Eight problems, spread out over the set.")] = False,
    json_file: JsonFile = None,
) -> None:
    """What each solver of instance classes costs, beside the authors' program."""
    if not random and not (data / problem_set).is_dir():
        raise typer.BadParameter(
            f"{data / problem_set} is not there: name the folder that has it", param_hint="--data"
        )
    if random and skip_paper:
        raise typer.BadParameter("variant paper is the reference of --random", param_hint="--skip-paper")
    from cluster_autoscaler_hook.solver.variant import Variant
    from experiments.fcma import bench

    problems = (
        bench.random_set(problem_set, random, parse_seeds(seeds) if seeds else REPORTED[:1])
        if random
        else bench.recorded_set(problem_set, data)
    )
    figures = bench.run(
        bench.spread_out(problems, bench.QUICK) if quick else problems,
        bench.Deadlines(deadline, paper_deadline),
        progress(),
        variants=[v for v in Variant if not (skip_paper and v is Variant.PAPER)],
        paper_is_reference=bool(random),
        recycling=recycling,
    )
    show({"set": problem_set, "deadline_s": deadline} | figures, json_file)


@app.command()
def expander(
    seeds: Seeds = None,
    deadline_s: Annotated[float, typer.Option(min=0.0, help="Seconds for each decision.")] = 0.45,
    quick: Annotated[bool, typer.Option(help="Five scale-ups of each shape; with --live one.")] = False,
    live: Annotated[
        bool,
        typer.Option("--live", help="With the cluster-autoscaler in SURGEKIT_BIN_DIR: three of each shape."),
    ] = False,
    costs_only: Annotated[
        bool, typer.Option("--costs-only", help="Leave out how long requests take, which needs idle cores.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """What scale-ups cost with ours and with Cluster Autoscaler's own expanders, simulated; and its speed.

    A scale-up of each of six shapes for every seed: 40 seeds, or 3 with --live."""
    # 2001 to 2040 were published before the expander assumed usual DaemonSets: since then 2041 to 2080 are.
    drawn = parse_seeds(seeds) if seeds else REPORTED[:3] if live else REPORTED[40:80]
    drawn = drawn[: 1 if live else 5] if quick else drawn
    if live:
        from experiments.expander.live import run as run_live
        from experiments.expander.live_mixes import live_mixes

        show(run_live(live_mixes(drawn), progress()), json_file)
        return
    from cluster_autoscaler_hook.solver.solve import solve
    from experiments.expander.large_request import measure
    from experiments.expander.simulation import run
    from surgekit.process import logs

    logs.configure("WARNING")
    say = progress()
    figures = run(drawn, solve, deadline_s, say)
    show(figures if costs_only else figures | measure(deadline_s, say), json_file)


@app.command()
def nodes(
    trace: Trace = None,
    seeds: Seeds = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each mix is played.")] = 1,
    mix: Annotated[list[str] | None, typer.Option(help="Only these mixes.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two mixes, once; with --joint, 5 seeds.")] = False,
    joint: Annotated[
        bool, typer.Option("--joint", help="Simulated: ComboFunc's sizes and FCMA's classes chosen together.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """What nodes cost, and how soon pods run, with Karpenter alone and with FCMA's plan through it."""
    if joint:
        from experiments.nodes.joint import run as run_joint
        from experiments.seeds import SWEEP

        # 2001 to 2020 were looked at before the choice kept to what functions follow.
        reported = parse_seeds(seeds) if seeds else REPORTED[20:40]
        show(run_joint(reported[: 5 if quick else None], SWEEP, progress()), json_file)
        return
    from experiments.nodes.bench import run
    from experiments.nodes.mixes import mixes
    from experiments.nodes.priced_mixes import TABLE, priced

    drawn = parse_seeds(seeds) if seeds else None
    played = [m for m in mixes(trace, drawn) if not mix or m.name in mix]
    if not played:
        raise typer.BadParameter(f"no mix of {mix}", param_hint="--mix")
    figures = run(played[:2] if quick else played, TABLE, priced, 1 if quick else rounds, progress())
    if not takes_output(json_file):
        for key in ("cost_ratio", "time_ratio"):
            for name, ratio in figures[key].items():
                Console().print(f"{key}, ours / {name}: {in_words(ratio)}, worst mix {ratio['worst']:.2f}")
    write_figures(figures, json_file)


@app.command()
def kneescale(
    quick: Annotated[
        bool, typer.Option("--quick", help="Within 20 minutes: one round, a quarter of the dynamic load.")
    ] = False,
    arm: Annotated[list[str] | None, typer.Option(help="Only these arms; gains are of `ours`.")] = None,
    load: Annotated[
        Literal["stationary", "dynamic", "bursts"] | None,
        typer.Option(help="Only this one; default: the first two."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Of the stationary load, or of --load.")] = 3,
    time_factor: Annotated[
        float, typer.Option(min=1.0, max=4.0, help="All loops run this many times as fast.")
    ] = 4.0,
    at_once: Annotated[int, typer.Option(min=1, help="Arms that are played side by side.")] = 4,
    budget: Annotated[
        list[float] | None, typer.Option(min=0.01, help="Multiples of the paper's budget; not with --quick.")
    ] = None,
    seeds: Seeds = None,
    trace: Trace = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="In virtual time: no lab, the HPA as its formula.")
    ] = False,
    grid: Annotated[
        bool, typer.Option("--grid", help="With --simulated: also functions with other parameters.")
    ] = False,
    json_file: JsonFile = None,
    plots: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
) -> None:
    """Cumulative performance under a replica budget: ours, the paper's, other searches, the HPA, OpenFaaS."""
    from experiments.kneescale import command as bench_kneescale

    if grid and not simulated:
        raise typer.BadParameter("only with --simulated", param_hint="--grid")
    if quick and load == "bursts":
        raise typer.BadParameter("not with --quick", param_hint="--load bursts")
    factor = 1.0 if simulated else time_factor
    plan = bench_kneescale.plan_of(
        bench_kneescale.Options(
            quick,
            arm or [],
            load,
            rounds,
            factor,
            at_once,
            trace,
            seeds=parse_seeds(seeds) if seeds else None,
            budgets=budget or (1.0,),
        )
    )
    say = progress()
    found = (
        bench_kneescale.simulate(plan, grid, say) if simulated else bench_kneescale.play(plan, json_file, say)
    )
    if plots:
        from experiments.kneescale.pictures import draw_all

        say(f"{len(draw_all(found['played'], plan, plots))} pictures in {plots}")
    say("the true knees, by a sweep in virtual time")
    found["searched_knees"] = bench_kneescale.searched_knees(found)
    bench_kneescale.show(found, json_file)


@app.command("knee-search")
def knee_search(
    curves: Annotated[
        Path | None,
        typer.Option(help="CSV file: name, capacity, score at 1..capacity; default: families drawn blindly."),
    ] = None,
    noise: Annotated[float, typer.Option(min=0.0, max=1.0, help="Relative noise of each sample.")] = 0.03,
    seeds: Seeds = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few draws: a minute.")] = False,
    json_file: JsonFile = None,
) -> None:
    """How near KneeScale's search comes to the knee, alone, beside Kneedle on a full sweep."""
    from experiments.kneescale import knee_search as bench
    from experiments.kneescale.curve_file import read_curves

    # The first reported seeds were looked at before the search was changed.
    drawn = parse_seeds(seeds) if seeds else REPORTED[100 : 105 if curves else 120]
    drawn = drawn[:2] if quick else drawn
    found, draws = (read_curves(curves), drawn) if curves else (bench.blind_curves(drawn), drawn[:1])
    figures = bench.run(found, noise, draws, progress())
    if not takes_output(json_file):
        Console().print(bench.table(figures))
    write_figures(figures, json_file)


@app.command()
def combofunc(
    quick: Annotated[
        bool, typer.Option("--quick", help="Within 20 minutes: one round of a few minutes of the trace.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="With other traces, speeds and residents each.")] = 3,
    arm: Annotated[list[str] | None, typer.Option(help="Only these arms; ratios are of `ours`.")] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="In virtual time: no lab, kube-scheduler as its formulas.")
    ] = False,
    seeds: Seeds = None,
    trace: Trace = None,
    json_file: JsonFile = None,
    plots: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
) -> None:
    """Scaling time and cost of functions: ours, and stock, Random Fit, Autopilot, ours without in-place."""
    from experiments.combofunc import command as bench_combofunc

    say, drawn = progress(), parse_seeds(seeds) if seeds else None
    options = bench_combofunc.Options(quick, rounds, arm or [], drawn, trace)
    if simulated:
        found = bench_combofunc.simulate(options, say)
    else:
        found = bench_combofunc.play(options, json_file, say)
    if plots:
        from experiments.combofunc.pictures import draw_all

        say(f"{len(draw_all(found, plots))} pictures in {plots}")
    bench_combofunc.show(found, json_file)


@app.command("combofunc-scale")
def combofunc_scale(
    quick: Annotated[
        bool, typer.Option("--quick", help="Within 5 minutes: 40 functions, 200 nodes, 2 minutes of changes.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """200 ComboFuncs, 1,000 nodes, 5,000 pods, 100 target changes a minute: lag, memory, leaks."""
    from experiments.combofunc.scale import Plan, run

    figures = run(Plan.quick() if quick else Plan(), progress())
    show(figures, json_file)
    if figures["failures"]:
        raise LabError(f"{len(figures['failures'])} failures: " + "; ".join(figures["failures"][:5]))


@app.command()
def escra(
    quick: Annotated[
        bool, typer.Option("--quick", help="Within 15 minutes: two loads, fewer arms, one seed.")
    ] = False,
    arm: Annotated[
        list[str] | None, typer.Option(help="Only these arms, and those of ours they are compared with.")
    ] = None,
    seeds: Seeds = None,
    trace: Trace = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Also other parameters of ours, and Autopilot's other periods.")
    ] = False,
    profile_window: Annotated[
        float | None,
        typer.Option(min=0.1, max=10.0, help="Seconds over which peaks are averaged; default 1."),
    ] = None,
    rest_only: Annotated[
        bool, typer.Option("--rest-only", help="No applications: reaction, steps and functions.")
    ] = False,
    stock_resize: Annotated[
        bool, typer.Option("--stock-resize", help="Also in-place resize by the API, on a lab's real node.")
    ] = False,
    serverless_only: Annotated[
        bool, typer.Option("--serverless-only", help="Only functions whose pods come and go.")
    ] = False,
    json_file: JsonFile = None,
    plots: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
) -> None:
    """Container limits on real cgroups: ours, static limits, none, burst, Autopilot. Needs root and Linux."""
    from experiments.escra import command as bench_escra
    from experiments.escra.bench import run
    from experiments.kneescale.command import partial_of

    drawn, say = parse_seeds(seeds) if seeds else None, progress()
    options = bench_escra.Options(
        quick, arm or [], drawn, trace, sweep, profile_window, rest_only, serverless_only,
        stock_resize,
    )  # fmt: skip
    plan, partial = bench_escra.plan_of(options), partial_of(json_file)
    say(f"{plan.minutes:.0f} minutes, less what was played before")
    if partial:
        say(f"finished runs are kept in {partial}; the same command continues from it")
    found = run(plan, partial, say)
    if plots:
        from experiments.escra.pictures import draw_all

        say(f"{len(draw_all(found, plots))} pictures in {plots}")
    bench_escra.show(found, json_file)


@app.command()
def pulsenet(
    quick: Annotated[
        bool, typer.Option("--quick", help="Within 15 minutes: short runs, and with --simulated two seeds.")
    ] = False,
    simulated: Annotated[bool, typer.Option("--simulated", help="In virtual time: no lab.")] = False,
    starts: Annotated[
        bool, typer.Option("--starts", help="Only how long emergency instances take to start: 7 minutes.")
    ] = False,
    comparison_only: Annotated[
        bool, typer.Option("--comparison-only", help="With --simulated: nothing is varied.")
    ] = False,
    arm: Annotated[
        list[str] | None,
        typer.Option(help="Live, only these arms and ours: pulsenet, paper, synchronous ..."),
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Live, also a keepalive of 10 s, and creations of 3 s.")
    ] = False,
    seeds: Seeds = None,
    trace: Trace = None,
    json_file: JsonFile = None,
    plots: Annotated[Path | None, typer.Option(help="Write pictures into this folder.")] = None,
) -> None:
    """Slowdown and cost: PulseNet, and Knative, synchronous creation, predictors, warm pools, Dirigent."""
    from experiments.pulsenet import command as bench_pulsenet

    drawn, say = parse_seeds(seeds) if seeds else None, progress()
    if starts:
        from experiments.pulsenet.starts import run as bench_starts

        bench_starts(quick, json_file)
        return
    if not simulated:
        from experiments.kneescale.command import partial_of
        from experiments.pulsenet.live import command as bench_live
        from experiments.pulsenet.live import run

        plan = bench_live.plan_of(quick, arm or [], drawn, trace, sweep)
        say(f"{plan.minutes:.0f} minutes, less what was played before")
        bench_live.show(run(plan, partial_of(json_file), say), json_file)
        return
    options = bench_pulsenet.Options(quick, drawn, trace, comparison_only)
    found = bench_pulsenet.simulate(options, json_file, say)
    if plots:
        from experiments.pulsenet.pictures import draw_all

        say(f"{len(draw_all(found, plots))} pictures in {plots}")
    bench_pulsenet.show(found, json_file)


@app.command()
def adapter(
    policies: Annotated[int, typer.Option(min=1, help="KneePolicies that feed the metric.")] = 1000,
    namespaces: Annotated[int, typer.Option(min=1, help="They are spread over so many.")] = 10,
    requests: Annotated[int, typer.Option(min=1000, help="Of each way to ask.")] = 5000,
    quick: Annotated[bool, typer.Option("--quick", help="A thousand requests.")] = False,
    json_file: JsonFile = None,
) -> None:
    """How long a metric GET of the adapter takes, asked directly and through the API server."""
    from experiments.adapter import run

    figures = run(policies, namespaces, 1000 if quick else requests, progress())
    flat = {f"{way}.{key}": value for way, times in figures["ways"].items() for key, value in times.items()}
    show(figures | flat, json_file)


@app.command()
def monitor(
    functions: Annotated[int, typer.Option(min=1, help="Functions read at once.")] = 1000,
    pods: Annotated[int, typer.Option(min=1, help="Of each function, for their CPU usage.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="How often they are read.")] = 20,
    json_file: JsonFile = None,
) -> None:
    """How long reading all functions from Prometheus takes, with Prometheus on the same single core."""
    from experiments.monitor import run

    show(run(functions, pods, rounds, progress()), json_file)


@app.command()
def dashboard(
    phase_s: Annotated[float, typer.Option(min=1, help="Seconds of each of five phases.")] = 30.0,
    json_file: JsonFile = None,
) -> None:
    """The Grafana dashboard's queries, asked of a real Prometheus; `surgekit report` draws the answers."""
    from experiments.dashboard import run

    figures = run(phase_s, progress())
    show(figures | {"panels answered": len(figures["answered"]), "silent": figures["silent"]}, json_file)


@app.command()
def planner(
    instances: Annotated[int, typer.Option(min=1, help="Small problems that are also solved exactly.")] = 400,
    repetitions: Annotated[int, typer.Option(min=10, help="Plans timed for each start at 16 nodes.")] = 300,
    seeds: Seeds = None,
    quick: Annotated[bool, typer.Option("--quick", help="80 problems, 100 plans.")] = False,
    json_file: JsonFile = None,
) -> None:
    """How far ComboFunc's plans are from the best, beside Algorithm 1's, and how long they take."""
    from experiments.planner.bench import run, tables

    drawn = parse_seeds(seeds) if seeds else REPORTED[:1]
    figures = run(drawn, 80 if quick else instances, 100 if quick else repetitions, progress())
    if not takes_output(json_file):
        tables(figures)
    show(figures, json_file)


@app.command()
def results(
    files: Annotated[list[Path] | None, typer.Argument(help="What benches wrote with --json.")] = None,
    docs: Annotated[Path, typer.Option(help="Folder of the documentation.")] = Path("docs"),
) -> None:
    """Keep the figures of these files, and write docs/results.md from all that are kept."""
    from experiments.results.command import keep, write

    for file in keep(files or [], docs):
        Console().print(f"kept {file}", soft_wrap=True)
    Console().print(f"wrote {write(docs)}", soft_wrap=True)


def progress() -> Callable[[str], None]:
    """Says on standard error how far a long run is, and when."""
    console, started_s = Console(stderr=True, highlight=False, soft_wrap=True), time.monotonic()

    def say(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - started_s), 60)
        console.print(f"[dim]{minutes:3d}:{seconds:02d}[/dim] {text}")

    return say


@app.command()
def ui(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the made-up cluster.")] = 1000,
    pods: Annotated[int, typer.Option(min=1, help="Its pods.")] = 10_000,
    functions: Annotated[int, typer.Option(min=1, help="Its functions.")] = 100,
    changes_per_s: Annotated[int, typer.Option(min=1, help="Changes of pods a second.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, help="Half seconds with changes.")] = 60,
    seed: Annotated[int, typer.Option(help="Draws which pods change.")] = 1,
    browser: Annotated[bool, typer.Option(help="Also in Chromium: the first picture, and frames.")] = False,
    json_file: JsonFile = None,
) -> None:
    """What the live page costs: first snapshot, CPU time and bytes of a change, memory; how smooth it is."""
    from experiments.view.bench import run

    show(run(nodes, pods, functions, changes_per_s, rounds, seed, progress(), browser), json_file)


def show(figures: dict[str, Any], json_file: Path | None) -> None:
    if write_figures(figures, json_file):
        return
    table = Table("figure", "value")
    for key, value in figures.items():
        if isinstance(value, dict) and {"low", "high"} <= value.keys():
            table.add_row(key, in_words(value, 3))
        elif not isinstance(value, list | dict):
            table.add_row(key, str(value))
    Console().print(table)
