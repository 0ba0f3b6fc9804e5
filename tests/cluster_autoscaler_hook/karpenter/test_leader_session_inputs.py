"""Without usable prices or a plan, a leader rents nothing and says so."""

from __future__ import annotations

from pathlib import Path

from cluster_autoscaler_hook.karpenter import claims
from cluster_autoscaler_hook.karpenter.strict_catalogue import SHIPPED
from cluster_autoscaler_hook.solver.model import InvalidProblem, Problem, Solution
from tests.cluster_autoscaler_hook.karpenter.builders import solve
from tests.cluster_autoscaler_hook.karpenter.leader import claims_of, message_of, plan_of, session_of
from tests.fake_api_server.server import FakeApiServer


def test_a_catalogue_that_changes_during_a_solve_discards_the_plan(
    kube: FakeApiServer, tmp_path: Path
) -> None:
    table = tmp_path / "prices.csv"
    table.write_text(SHIPPED.read_text())
    solves = 0

    def solve_slowly(problem: Problem) -> Solution:
        nonlocal solves
        solves += 1
        if solves == 1:
            table.write_text("".join(SHIPPED.read_text().splitlines(keepends=True)[:3]))
        return solve(problem)

    session, _ = session_of(kube, solver=solve_slowly, catalogue=table)
    session.step()
    assert not claims_of(kube)
    session.step()
    assert solves == 2
    assert {claims.read_claim(c).instance_class for c in claims_of(kube)} <= {"c5.large", "c5.xlarge"}


def test_a_catalogue_that_cannot_be_read_rents_nothing_and_says_so(
    kube: FakeApiServer, tmp_path: Path
) -> None:
    session, _ = session_of(kube, catalogue=tmp_path / "missing.yaml")
    session.step()
    assert not claims_of(kube)
    assert "missing.yaml" in message_of(kube)


def test_enforce_on_sample_prices_rents_nothing_and_gates_nothing(
    kube: FakeApiServer, tmp_path: Path
) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "currency: EUR\nsample: true\nclasses:\n- {class: a, family: f, cores: 8, memoryGiB: 32, price: 1}\n"
    )
    session, _ = session_of(kube, catalogue=file)
    session.step()
    assert not claims_of(kube)
    assert plan_of(kube)["gating"] is False
    assert "sample prices" in message_of(kube)


def test_a_solver_that_fails_rents_nothing_and_says_so(kube: FakeApiServer) -> None:
    def fail(_problem: Problem) -> Solution:
        raise InvalidProblem("no such thing")

    session, _ = session_of(kube, solver=fail)
    session.step()
    assert not claims_of(kube)
    assert "no such thing" in message_of(kube)
