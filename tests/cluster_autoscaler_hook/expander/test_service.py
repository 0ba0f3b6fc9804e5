"""There is an answer, in time, whatever happens; and it is a part of what was offered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_autoscaler_hook.catalogue import CatalogueError
from cluster_autoscaler_hook.expander import service as module
from cluster_autoscaler_hook.expander.decision import PlanFailed
from cluster_autoscaler_hook.expander.decode import RequestError
from cluster_autoscaler_hook.expander.last_good_catalogue import LastGoodCatalogue
from cluster_autoscaler_hook.expander.plan import Solve
from cluster_autoscaler_hook.expander.service import Expander
from cluster_autoscaler_hook.expander.settings import Settings
from cluster_autoscaler_hook.expander.time_limit import TimeLimited
from cluster_autoscaler_hook.solver.model import Problem, Solution
from cluster_autoscaler_hook.solver.solve import solve
from surgekit.process.modes import Mode
from surgekit.process.settings import SettingsError, load
from tests.cluster_autoscaler_hook.expander.builders import (
    RECORDED,
    chosen,
    no_plan,
    node,
    old_fields,
    pod,
    request,
)

WEB = RECORDED[0].read_bytes()
LABELLED = Settings(mode=Mode.ENFORCE, price_labels=("price",), deadline_s=4.0)
CHEAP, DEAR = "{class: m5.2xlarge, family: m5, cores: 4, memoryGiB: 32, price: %s}", "0.9"


def catalogue(path: Path, price: str) -> Path:
    path.write_text(f"currency: USD\ncpusPerCore: 1\nclasses:\n- {CHEAP % price}\n")
    return path


def metric(expander: Expander, name: str, **labels: str) -> float:
    expander.explain()  # waits until all is recorded
    return expander.metrics.registry.get_sample_value(f"surgekit_expander_{name}", labels) or 0.0


@pytest.mark.parametrize("fields", [lambda b: b, old_fields, lambda b: old_fields(b, True)])
def test_one_group_of_a_real_request(fields: object) -> None:
    expander = Expander(LABELLED, no_plan)
    assert chosen(expander.best_options(fields(WEB))) == ["c6g.4xlarge"]  # type: ignore[operator]
    (kept,) = expander.explain()
    assert kept["decision"] == ["c6g.4xlarge"]
    assert kept["scores"][0]["now"] == pytest.approx(1.752)
    assert (kept["valid"], kept["inputs_age_s"]) == (True, {})
    assert metric(expander, "best_options_seconds_count") == 1
    assert metric(expander, "scale_up_cost_per_hour") == pytest.approx(1.752)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OFF])
def test_other_modes_leave_the_choice_to_the_caller(mode: Mode) -> None:
    expander = Expander(Settings(mode=mode, price_labels=("price",), deadline_s=4.0), no_plan)
    assert len(chosen(expander.best_options(WEB))) == 5
    said = [kept["decision"] for kept in expander.explain()]
    assert said == ([["c6g.4xlarge"]] if mode is Mode.SHADOW else [])


def test_decisions_are_counted() -> None:
    expander = Expander(LABELLED, no_plan)
    expander.best_options(WEB)
    with pytest.raises(RequestError):
        expander.best_options(b"\xff\xff\xff")
    assert metric(expander, "decisions_total", mode="enforce", outcome="fallback") == 1
    assert metric(expander, "decisions_total", mode="enforce", outcome="refused") == 1


def test_it_starts_in_shadow() -> None:
    assert Settings().mode is Mode.SHADOW


def test_whether_it_was_ever_asked_can_be_seen() -> None:
    """A wrong CA shows nowhere else: the caller is silent about it below --v=4."""
    expander = Expander(LABELLED, no_plan)
    assert metric(expander, "last_asked_timestamp_seconds") == 0
    before_s = time.time()
    with pytest.raises(RequestError):
        expander.best_options(b"\xff\xff\xff")
    assert before_s <= metric(expander, "last_asked_timestamp_seconds") <= time.time()


def test_nothing_offered_nothing_answered() -> None:
    assert Expander(LABELLED, no_plan).best_options(b"") == b""


def test_classes_without_a_price_are_counted_and_said(tmp_path: Path) -> None:
    expander = Expander(
        Settings(mode=Mode.ENFORCE, catalogue=catalogue(tmp_path / "c.yaml", "0.4"), deadline_s=4.0), no_plan
    )
    assert chosen(expander.best_options(WEB)) == ["m5.2xlarge"]
    (kept,) = expander.explain()
    assert "the only option with a price" in kept["reasons"][0]
    assert "c5.large: no price for class 'c5.large'" in kept["reasons"]
    assert metric(expander, "unpriced_options_total") == 4


def test_no_price_at_all_still_scales_up() -> None:
    assert (
        len(
            chosen(
                Expander(Settings(mode=Mode.ENFORCE, price_labels=(), deadline_s=4.0), no_plan).best_options(
                    WEB
                )
            )
        )
        == 1
    )


def test_a_deadline_of_0_answers_the_cheapest() -> None:
    """Without a look at the pods: c6g.4xlarge is 1.752 for 20, as its neighbours are for more."""
    expander = Expander(Settings(mode=Mode.ENFORCE, price_labels=("price",), deadline_s=0.0), no_plan)
    assert chosen(expander.best_options(WEB)) == ["c6g.4xlarge"]
    assert expander.explain()[0]["fallback"]


def test_a_bug_of_ours_costs_the_better_choice_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(module, "decide_without_plan", broken)
    expander = Expander(LABELLED, no_plan)
    assert chosen(expander.best_options(WEB)) == ["c6g.4xlarge"]
    assert "bug" in expander.explain()[0]["fallback"]


def test_a_pod_that_cannot_be_read_costs_the_better_choice_only() -> None:
    nodes = {"a": node(price="1"), "b": node(price="0.5")}
    body = request({"a": (1, [pod(cpu="lots")]), "b": (1, [pod()])}, nodes)
    expander = Expander(LABELLED, no_plan)
    assert chosen(expander.best_options(body)) == ["b"]
    assert "'lots'" in expander.explain()[0]["fallback"]


@pytest.fixture
def hanging() -> Iterator[tuple[Solve, threading.Event]]:
    release = threading.Event()

    def hang(_: Problem, __: float) -> Solution:
        release.wait(20)
        raise RuntimeError("released")

    yield hang, release
    release.set()


def test_a_solver_that_hangs(hanging: tuple[Solve, threading.Event], monkeypatch: pytest.MonkeyPatch) -> None:
    hang, release = hanging
    expander = Expander(Settings(mode=Mode.ENFORCE, price_labels=("price",), deadline_s=0.3), hang)
    started_s = time.monotonic()
    assert chosen(expander.best_options(WEB)) == ["c6g.4xlarge"]
    assert time.monotonic() - started_s < 3
    assert "did not come back" in expander.explain()[0]["fallback"]
    # The next does not wait for it, and does not start a second.
    assert chosen(expander.best_options(WEB)) == ["c6g.4xlarge"]
    assert "still being made" in expander.explain()[0]["fallback"]
    assert expander.alive()
    monkeypatch.setattr(module, "_STUCK_S", 0.0)
    assert not expander.alive()
    release.set()


def test_a_plan_is_waited_for_only_where_it_decides(hanging: tuple[Solve, threading.Event]) -> None:
    hang, release = hanging
    started = threading.Event()

    def solve(problem: Problem, seconds: float) -> Solution:
        started.set()
        return hang(problem, seconds)

    def asked(prices: str) -> list[str]:
        nodes = {group: node(price=price) for group, price in zip("ab", prices, strict=True)}
        return chosen(expander.best_options(request({g: (1, [pod()]) for g in "ab"}, nodes)))

    expander = Expander(LABELLED, solve)
    assert asked("21") == ["b"]
    assert started.wait(10)  # answered, and the solver hangs still: it was not waited for
    assert not release.is_set()
    release.set()
    assert "released" in expander.explain()[0]["fallback"]
    started.clear()
    assert asked("11") == ["a"]
    assert started.is_set()  # here it could have decided


def test_a_solver_that_comes_back_late_is_used_again() -> None:
    slow = threading.Event()

    def late(_: Problem, seconds: float) -> Solution:
        slow.wait(10)
        raise ValueError(f"had {seconds:.2f} s")

    limited = TimeLimited(late)
    with pytest.raises(PlanFailed, match="did not come back"):
        limited(None, 0.01)  # type: ignore[arg-type]
    assert limited.stuck_s() > 0
    slow.set()
    deadline_s = time.monotonic() + 10
    while limited.stuck_s() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    with pytest.raises(PlanFailed, match=r"the solver failed: ValueError\('had 4.00 s'\)"):
        limited(None, 5.0)  # type: ignore[arg-type]
    assert limited.stuck_s() == 0


class TestLastGoodCatalogue:
    def test_a_change_is_seen_by_the_next_request(self, tmp_path: Path) -> None:
        file = catalogue(tmp_path / "c.yaml", "0.4")
        watched = LastGoodCatalogue(file, live=True)
        before = watched.current()
        catalogue(file, "0.45")
        assert watched.current().entries["m5.2xlarge"].price_per_hour == 0.45
        assert before.entries["m5.2xlarge"].price_per_hour == 0.4, "a decision keeps what it began with"

    @pytest.mark.parametrize("price", ["0", "-1", ".nan", "cheap"])
    def test_a_faulty_one_leaves_the_old_and_is_said(self, tmp_path: Path, price: str) -> None:
        file = catalogue(tmp_path / "c.yaml", "0.4")
        expander = Expander(Settings(mode=Mode.ENFORCE, catalogue=file, deadline_s=4.0), no_plan)
        catalogue(file, price)
        assert chosen(expander.best_options(WEB)) == ["m5.2xlarge"]
        assert metric(expander, "catalogue_faulty") == 1
        catalogue(file, "0.4444")
        expander.best_options(WEB)
        assert metric(expander, "catalogue_faulty") == 0

    def test_one_that_is_deleted_leaves_the_old(self, tmp_path: Path) -> None:
        file = catalogue(tmp_path / "c.yaml", "0.4")
        watched = LastGoodCatalogue(file, live=True)
        file.unlink()
        assert watched.current().entries
        assert "c.yaml" in (watched.error or "")

    def test_the_catalogue_in_use_ages_while_the_file_is_faulty(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now_s = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: now_s)
        file = catalogue(tmp_path / "c.yaml", "0.4")
        watched = LastGoodCatalogue(file, live=True)
        now_s = 130.0
        watched.current()
        assert watched.age_s() == 0
        good = file.read_text()
        file.write_text("faulty")
        now_s = 145.0
        watched.current()
        assert watched.age_s() == 15
        file.write_text(good)
        watched.current()
        assert watched.age_s() == 0

    def test_sample_prices_are_not_for_enforce(self, tmp_path: Path) -> None:
        """It does not start with them; coming later they are not taken. Shadow shows what they lead to."""
        file = catalogue(tmp_path / "c.yaml", "0.4")
        mine = file.read_text()
        sample = mine.replace("0.4", "0.3") + "sample: true\n"
        live = Settings(mode=Mode.ENFORCE, catalogue=file, deadline_s=4.0)
        expander = Expander(live, no_plan)
        file.write_text(sample)
        assert chosen(expander.best_options(WEB)) == ["m5.2xlarge"]
        assert metric(expander, "catalogue_faulty") == 1
        with pytest.raises(
            CatalogueError, match=r"c\.yaml: these are sample prices.*take `sample: true` away"
        ):
            Expander(live, no_plan)
        shadow = Expander(Settings(mode=Mode.SHADOW, catalogue=file, deadline_s=4.0), no_plan)
        assert len(chosen(shadow.best_options(WEB))) == 5
        assert shadow.explain()[0]["decision"] == ["m5.2xlarge"]

    def test_a_change_during_a_solve(self, tmp_path: Path) -> None:
        """The prices of one decision are all of one catalogue."""
        file = tmp_path / "c.yaml"
        both = "- {class: a, family: f, cores: 4, memoryGiB: 16, price: %s}\n"
        both += "- {class: b, family: f, cores: 4, memoryGiB: 16, price: %s}\n"
        head = "currency: USD\ncpusPerCore: 1\nclasses:\n"
        file.write_text(head + both % ("1", "2"))
        seen: list[dict[str, float]] = []

        def change(problem: Problem, _: float) -> Solution:
            file.write_text(head + both % ("20", "10"))
            seen.append({c.name: c.price_per_hour for c in problem.classes})
            raise RuntimeError("enough seen")

        nodes = {g: node(**{"node.kubernetes.io__instance_type": g}) for g in "ab"}
        body = request({g: (1, [pod()]) for g in "ab"}, nodes)
        expander = Expander(Settings(mode=Mode.ENFORCE, catalogue=file, deadline_s=4.0), change)
        for cheaper in "ab":
            assert chosen(expander.best_options(body)) == [cheaper]
            assert "enough seen" in expander.explain()[0]["fallback"]  # the plan comes after the answer
        assert seen == [{"a": 1.0, "b": 2.0}, {"a": 20.0, "b": 10.0}]


@settings(max_examples=50)
@given(st.data())
def test_the_answer_is_always_part_of_the_request(data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.text(max_size=5), min_size=1, max_size=5))
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
    pods = st.lists(st.sampled_from([pod(str(size), name=f"p{i}") for i, size in enumerate(sizes)]))
    options = {g: (data.draw(st.integers(-1, 5)), data.draw(pods)) for g in groups}
    nodes = {
        g: node(price=data.draw(st.sampled_from(["1", "2", "nan", ""])))
        for g in groups
        if data.draw(st.booleans())
    }
    answer = chosen(Expander(LABELLED, no_plan).best_options(request(options, nodes)))
    assert answer
    assert set(answer) <= set(groups)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("deadline_s: -1", ["deadline_s", "-1"]),
        ("deadline_s: .nan", ["deadline_s", "nan"]),
        ("deadline_s: 9", ["deadline_s", "9"]),
        ("mode: maybe", ["mode", "maybe"]),
        ("catalog: x", ["catalog"]),
        ("max_request_mib: 0", ["max_request_mib", "0"]),
    ],
)
def test_bad_settings_are_named(content: str, names: list[str], tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(content)
    with pytest.raises(SettingsError) as error:
        load(Settings, file, {})
    assert all(name in str(error.value) for name in names)


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_with_the_real_solver(file: Path) -> None:
    """The plan may mix classes, so it costs no more than what the caller can be led to."""
    expander = Expander(LABELLED, solve)
    assert len(chosen(expander.best_options(file.read_bytes()))) == 1
    (kept,) = expander.explain()
    assert kept["fallback"] is None, kept
    score = kept["scores"][0]
    assert kept["plan_per_hour"] <= (score["now"] + score["then"]) * (1 + 1e-9)
    assert metric(expander, "decisions_total", mode="enforce", outcome="planned") == 1
