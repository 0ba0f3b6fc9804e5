"""The authors' format is read as it is written; what is wrong in a file is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster_autoscaler_hook import problem_file
from cluster_autoscaler_hook.model import InvalidProblem
from tests.cluster_autoscaler_hook.builders import PROBLEMS

TABLE_3 = json.loads((PROBLEMS / "table3.json").read_text())


def edited(edit: Callable[[Any], object]) -> bytes:
    file = copy.deepcopy(TABLE_3)
    edit(file)
    return json.dumps(file).encode()


def test_units_and_root_families() -> None:
    problem = problem_file.load(PROBLEMS / "table3.json")
    ac4 = problem.class_by_name["AC4"]
    assert (ac4.family, ac4.cores, ac4.memory_gib, ac4.price_per_hour) == ("A", 4.0, 16.0, 0.4)
    container = problem.containers["A3", "B"]
    assert (container.cores, container.levels, container.memory_gib) == (1.2, (1, 2), (6.4, 6.4))
    assert problem.app_by_name["A2"].workload / container.performance == pytest.approx(60 / 2.5)


def test_sfmpl_can_be_overridden() -> None:
    problem = problem_file.load(PROBLEMS / "table3.json", sfmpl=0.5)
    assert {app.sfmpl for app in problem.apps} == {0.5}


@pytest.mark.parametrize("path", sorted(PROBLEMS.glob("*.json")), ids=lambda path: path.stem[:12])
def test_the_authors_files_are_read(path: Path) -> None:
    assert problem_file.load(path).apps


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda f: f.pop("workloads"), "workloads"),
        (lambda f: f["system"].pop("perf"), "perf"),
        (lambda f: f["units"].update(cpu="hours"), "units: 'cpu' is 'hours'"),
        (lambda f: f["units"].pop("mem"), "units: 'mem' is None"),
        (lambda f: f["system"]["instance_classes"]["AC1"].update(cores="many"), "instance_classes.*cores"),
        (lambda f: f["system"]["instance_classes"]["AC1"].pop("price"), "price"),
        (
            lambda f: f["system"]["instance_classes"]["AC1"].update(price=-1),
            "class 'AC1': price_per_hour is -1",
        ),
        (lambda f: f["system"]["instance_classes"]["AC1"].update(family="X"), "class 'AC1': family 'X'"),
        (lambda f: f["system"]["families"].update(AC=["X"]), "family 'AC': parent 'X'"),
        (lambda f: f["system"]["families"].update(AC=["A", "B"]), "family 'AC': several parents"),
        (lambda f: f["system"]["families"].update(A=["AC"]), "is its own ancestor"),
        (lambda f: f["system"]["perf"].update({"A1 A": f["system"]["perf"]["(A1, A)"]}), "perf 'A1 A'"),
        (lambda f: f["system"]["perf"].update({"(X, A)": f["system"]["perf"]["(A1, A)"]}), "app 'X'"),
        (lambda f: f["system"]["perf"].update({"(A1, X)": f["system"]["perf"]["(A1, A)"]}), "family 'X'"),
        (lambda f: f["system"]["perf"].update({"(A1, AC)": f["system"]["perf"]["(A1, A)"]}), "not a root"),
        (lambda f: f["system"]["perf"]["(A1, A)"].update(mem=[1.0]), "1 memory sizes, 3"),
        (lambda f: f["system"]["perf"]["(A1, A)"].update(aggs=[2, 4]), "must start with 1"),
        (lambda f: f["system"]["perf"]["(A1, A)"].update(perf=0), "performance is 0"),
        (lambda f: f["system"]["apps"]["A1"].update(sfmpl=2), "app 'A1': sfmpl is 2"),
        (lambda f: f["workloads"].update(X=1.0), "workloads: app 'X'"),
        (lambda f: f["workloads"].update(A1=-3.0), "app 'A1': workload"),
    ],
)
def test_what_is_wrong_is_named(edit: Callable[[Any], object], named: str) -> None:
    with pytest.raises(InvalidProblem, match=named):
        problem_file.parse(edited(edit))


def test_no_json_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem):
        problem_file.parse(b"{")
    with pytest.raises(InvalidProblem, match=r"nowhere\.json: No such file"):
        problem_file.load(tmp_path / "nowhere.json")


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(edited(lambda f: f["workloads"].update(A1=-3.0)))
    with pytest.raises(InvalidProblem, match=r"^broken.json: app 'A1'"):
        problem_file.load(path)


def test_an_app_without_workload_has_none() -> None:
    problem = problem_file.parse(edited(lambda f: f["workloads"].pop("A1")))
    assert problem.app_by_name["A1"].workload == 0.0
