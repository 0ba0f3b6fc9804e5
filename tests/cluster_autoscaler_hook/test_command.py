"""`surgekit fcma solve` and `surgekit bench fcma`, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster_autoscaler_hook.solver.builders import EXAMPLES
from tests.commands import Commands


@pytest.mark.parametrize("variant", ["paper", "best", "ffc", "ffp"])
def test_json(variant: str, commands: Commands) -> None:
    done = commands.run("fcma", "solve", str(EXAMPLES / "table3.json"), "--variant", variant, "--json", "-")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.keys() == {
        *("cost", "lower_bound", "seconds", "nodes", "containers"),
        *("fault_tolerance", "load_balance", "isolation"),
        *("allocation", "variant", "deadline_reached"),
    }
    assert said["lower_bound"] <= said["cost"]
    nodes = [node for nodes in said["allocation"].values() for node in nodes]
    assert len(nodes) == said["nodes"]
    assert sum(n for node in nodes for levels in node.values() for n in levels.values()) == said["containers"]


def test_tables_and_a_file(tmp_path: Path, commands: Commands) -> None:
    out = tmp_path / "deep" / "figures.json"
    done = commands.run(
        "fcma", "solve", str(EXAMPLES / "table3.json"), "--variant", "ffc", "--json", str(out)
    )
    assert done.returncode == 0, done.stderr
    assert "BC48" in done.stdout
    assert json.loads(out.read_text())["variant"] == "ffc"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("usd/h", "yen"), "table.json: units: 'cost/t' is 'yen'"),
        (('"cores": 7600', '"cores": 99000'), None),
        (('"A1": 3.0,', ""), "table.json: workloads: app 'A1' is missing"),
        (('"A1": 3.0,', '"A1": NaN,'), "table.json: workloads.A1 is nan"),
        (('"A1": 3.0,', '"A1": 3.0, "A1": 4.0,'), "table.json: workloads.A1 is there twice"),
        (('"price": 0.1,', '"prize": 0.1,'), "table.json: instance class 'AC1': "),
    ],
)
def test_a_bad_problem_is_one_line(
    edit: tuple[str, str], message: str | None, tmp_path: Path, commands: Commands
) -> None:
    text = (EXAMPLES / "table3.json").read_text().replace(*edit)
    if message is None:  # A2 fits nowhere
        text = text.replace('"cores": 5000', '"cores": 99000')
        message = "app 'A2' fits nowhere"
    path = tmp_path / "table.json"
    path.write_text(text)
    done = commands.run("fcma", "solve", str(path))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_sfmpl_out_of_range_is_told(commands: Commands) -> None:
    done = commands.run("fcma", "solve", str(EXAMPLES / "table3.json"), "--sfmpl", "2")
    assert done.returncode == 1
    assert "sfmpl is 2.0" in done.stderr


def test_the_first_command_of_the_readme_runs(commands: Commands) -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    command = next(line.split() for line in readme.splitlines() if line.strip().startswith("surgekit fcma"))
    done = commands.run(*command[1:], cwd=EXAMPLES.parent.parent)
    assert done.returncode == 0, done.stderr
    assert "frontend" in done.stdout


@pytest.mark.parametrize(
    ("file", "message"),
    [(None, "reference.csv: No such file"), ("scenario,cost\n", "'lower_bound' is missing")],
)
def test_the_bench_names_what_is_wrong_with_its_data(
    file: str | None, message: str, tmp_path: Path, commands: Commands
) -> None:
    (tmp_path / "paper80").mkdir()
    if file is not None:
        (tmp_path / "paper80" / "reference.csv").write_text(file)
    done = commands.run("bench", "fcma", "--data", str(tmp_path))
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_bench_says_where_its_data_should_be(tmp_path: Path, commands: Commands) -> None:
    done = commands.run("bench", "fcma", "--data", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "--data" in done.stderr
