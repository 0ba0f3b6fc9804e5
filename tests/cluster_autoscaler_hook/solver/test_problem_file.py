"""The authors' format is read as it is written; what is wrong in a file is named."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_autoscaler_hook.solver import problem_file
from cluster_autoscaler_hook.solver.model import InfeasibleProblem, InvalidProblem
from tests.cluster_autoscaler_hook.solver.builders import EXAMPLES, PROBLEMS

TABLE_3 = json.loads((EXAMPLES / "table3.json").read_text())


def edited(edit: Callable[[Any], object]) -> bytes:
    file = copy.deepcopy(TABLE_3)
    edit(file)
    return json.dumps(file).encode()


def test_units_and_root_families() -> None:
    problem = problem_file.load(EXAMPLES / "table3.json")
    ac4 = problem.class_by_name["AC4"]
    assert (ac4.family, ac4.cores, ac4.memory_gib, ac4.price_per_hour) == ("A", 4.0, 16.0, 0.4)
    container = problem.containers["A3", "B"]
    assert (container.cores, container.levels, container.memory_gib) == (1.2, (1, 2), (6.4, 6.4))
    assert problem.app_by_name["A2"].workload / container.performance == pytest.approx(60 / 2.5)


def test_sfmpl_can_be_overridden() -> None:
    problem = problem_file.load(EXAMPLES / "table3.json", sfmpl=0.5)
    assert {app.sfmpl for app in problem.apps} == {0.5}


@pytest.mark.parametrize(
    "path", sorted([*PROBLEMS.glob("*.json"), *EXAMPLES.glob("*.json")]), ids=lambda path: path.stem[:12]
)
def test_the_authors_files_and_the_examples_are_read(path: Path) -> None:
    assert problem_file.load(path).apps


def test_the_readme_names_every_example() -> None:
    readme = (EXAMPLES.parent / "README.md").read_text()
    assert [path.name for path in EXAMPLES.glob("*.json") if f"examples/{path.name}" not in readme] == []


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda f: f.pop("workloads"), "workloads"),
        (lambda f: f["system"].pop("perf"), "perf"),
        (lambda f: f["units"].update(cpu="hours"), "units: 'cpu' is 'hours'"),
        (lambda f: f["units"].pop("mem"), "units: 'mem' is None"),
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
        (lambda f: f["workloads"].pop("A1"), "workloads: app 'A1' is missing"),
        (lambda f: f["workloads"].update(A1=float("nan")), "^workloads.A1 is nan"),
        (lambda f: f["workloads"].update(A1=float("inf")), "^workloads.A1 is inf"),
        (lambda f: f["workloads"].update(A1=10**400), "^workloads.A1 has 401 digits"),
        (
            lambda f: f["system"]["perf"]["(A1, A)"].update(mem=[float("nan")] * 3),
            r"^system.perf.\(A1, A\).mem.0 is nan",
        ),
        (lambda f: f.update(comment="x"), "unknown field `comment`"),
        (lambda f: f["system"].update(nodes={}), "unknown field `nodes`"),
        (lambda f: f["units"].update(disk="GiB"), "units: 'disk' is unknown"),
        (lambda f: f["system"]["apps"]["A1"].update(sfmlp=0.5), "app 'A1': .*unknown field `sfmlp`"),
        (lambda f: f["system"]["apps"]["A1"].update(name="A2"), "app 'A1': its name is 'A2'"),
        (
            lambda f: f["system"]["instance_classes"]["AC1"].update(memory=4),
            "instance class 'AC1': .*unknown field `memory`",
        ),
        (
            lambda f: f["system"]["instance_classes"]["AC1"].update(cores="many"),
            r"instance class 'AC1': Expected `float`, got `str` - at `\$.cores`",
        ),
        (lambda f: f["system"]["perf"]["(A1, A)"].update(cpu=4), r"perf '\(A1, A\)': .*unknown field `cpu`"),
        (lambda f: f["system"]["perf"]["(A1, A)"].update(maxagg=8), r"maxagg is 8, but aggs are \[1, 2, 4\]"),
        (
            lambda f: f["system"]["perf"]["(A1, A)"].update(aggs=[1, 2, 10**7], maxagg=None),
            "level 10000000 is more than",
        ),
        (lambda f: f["system"]["perf"].update({"((A1, A))": {}}), r"app '\(A1' is not among"),
    ],
)
def test_what_is_wrong_is_named(edit: Callable[[Any], object], named: str) -> None:
    with pytest.raises(InvalidProblem, match=named):
        problem_file.parse(edited(edit))


@pytest.mark.parametrize(
    "text",
    [
        b"{", b"", b"\xff\xfe\x00{", b"[" * 100_000, b'{"units": ' * 100_000, b"1" * 5000,
        b"[]", b'"x"', b"null", b'{"units": {}, "system": 1, "workloads": {}}', b'{"units": {"cpu": NaN}}',
    ],
)  # fmt: skip
def test_what_is_no_problem_file_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidProblem):
        problem_file.parse(text)


@given(
    content=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
    where=st.sampled_from(
        [
            ["units"], ["system"], ["workloads"], ["workloads", "A1"], ["system", "apps"],
            ["system", "apps", "A1"], ["system", "families"], ["system", "families", "AC"],
            ["system", "instance_classes", "AC1"],
            ["system", "instance_classes", "AC1", "cores"], ["system", "perf"], ["system", "perf", "(A1, A)"],
            ["system", "perf", "(A1, A)", "aggs"], ["system", "perf", "(A1, A)", "mem"],
            ["system", "perf", "(A1, A)", "perf"], ["system", "apps", "A1", "sfmpl"],
        ]
    ),
)  # fmt: skip
def test_whatever_stands_in_a_file_it_is_read_or_refused(content: Any, where: list[str]) -> None:
    file = copy.deepcopy(TABLE_3)
    place = file
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = content
    with contextlib.suppress(InvalidProblem, InfeasibleProblem):
        problem_file.parse(json.dumps(file).encode())


def test_a_key_that_is_there_twice_is_named() -> None:
    text = (EXAMPLES / "table3.json").read_text()
    row = '"AC1": {"cores": 1000, "mem": 4, "price": 0.1, "family": "AC"},'
    assert row in text
    with pytest.raises(InvalidProblem, match=r"^system.instance_classes.AC1 is there twice"):
        problem_file.parse(text.replace(row, row * 2).encode())
    with pytest.raises(InvalidProblem, match=r"^workloads is there twice"):
        problem_file.parse(text.replace('"workloads"', '"workloads": {}, "workloads"').encode())


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match=r"nowhere\.json: No such file"):
        problem_file.load(tmp_path / "nowhere.json")
    with pytest.raises(InvalidProblem, match="Is a directory"):
        problem_file.load(tmp_path)


def test_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(edited(lambda f: f["workloads"].update(A1=-3.0)))
    with pytest.raises(InvalidProblem, match=r"^broken.json: app 'A1'"):
        problem_file.load(path)
