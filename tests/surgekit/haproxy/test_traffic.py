"""What rows of `show stat` say of a function's requests."""

from __future__ import annotations

from surgekit.haproxy.traffic import FunctionTraffic, read_traffic


def row(backend: str, server: str = "BACKEND", **values: int) -> dict[str, str]:
    return {"pxname": backend, "svname": server} | {key: str(value) for key, value in values.items()}


def test_both_tracks_are_told_apart() -> None:
    rows = [
        row("f0", "emergency", scur=2, stot=9),
        row("f0", scur=7, stot=100, qcur=1, act=4),
        row("f1", scur=3, stot=3, qcur=0, act=0),
    ]
    assert read_traffic({"web.shop": "f0", "cold.shop": "f1"}, rows) == {
        "web.shop": FunctionTraffic(
            "f0", arrivals=100, overflowed=9, in_pods=4, in_emergency=2, waiting=1, pods=4
        ),
        # No pod: all of them wait.
        "cold.shop": FunctionTraffic(
            "f1", arrivals=3, overflowed=0, in_pods=0, in_emergency=0, waiting=3, pods=0
        ),
    }


def test_functions_of_other_replicas_and_backends_that_are_gone_are_left_out() -> None:
    rows = [row("f0", scur=1, stot=1, qcur=0, act=1), row("peer1", scur=5, stot=5, qcur=0, act=1)]
    assert list(read_traffic({"a.shop": "f0", "b.shop": "peer1", "c.shop": "f9"}, rows)) == ["a.shop"]


def test_rows_of_one_moment_that_do_not_agree_are_never_negative() -> None:
    rows = [row("f0", "emergency", scur=3), row("f0", scur=2, stot=5, qcur=4, act=1)]
    (found,) = read_traffic({"web.shop": "f0"}, rows).values()
    assert (found.in_pods, found.waiting, found.in_emergency) == (0, 0, 3)
