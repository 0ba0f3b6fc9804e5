"""Two reports in one say what the two would have said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from limit_allocator.wire.merge import merge
from limit_allocator.wire.messages import Found, Report, ReserveReport, table
from tests.limit_allocator.agent.controller_side import columns, rows

KEYS = st.integers(1, 6)


def report(number: int, **what: object) -> Report:
    return Report(number=number, term=1, at_us=1000 * number, room_bytes=number, **what)  # type: ignore[arg-type]


def found(key: int) -> Found:
    return Found(key=key, pod_uid="p", container_id="c", quota_us=1, memory_bytes=1)


@st.composite
def reports(draw: st.DrawFn) -> list[Report]:
    """Of one stream, in order. A key that is gone does not come again."""
    made, gone = [], set[int]()
    for number in range(1, draw(st.integers(3, 6))):
        keys = sorted(draw(st.sets(KEYS)) - gone)
        ends = set(draw(st.sets(KEYS, max_size=1))) - set(keys) - gone
        gone |= ends
        made.append(
            report(
                number,
                found=tuple(map(found, keys[:2])),
                gone=columns([(key,) for key in ends]) if ends else b"",
                cpu=columns([(key, number, 0, 0, 0, 0) for key in keys]) if draw(st.booleans()) else b"",
                memory=columns([(key, number, draw(st.integers(0, 1)), 0, 0) for key in keys]),
                memory_accounts=columns([(key, number, 1, number, 0, 0) for key in keys[1:]]),
                reserves=tuple(
                    ReserveReport(application=name, applied=number, granted_bytes=number, spent_bytes=0)
                    for name in draw(st.sets(st.sampled_from("ab")))
                ),
            )
        )
    return made


class Heard:
    """What a controller knows after some reports."""

    def __init__(self, *given: Report) -> None:
        self.found: set[int] = set()
        self.known: dict[tuple[str, int], tuple[int, ...]] = {}
        self.stuck: set[int] = set()
        self.reserves: dict[str, ReserveReport] = {}
        for one in given:
            self.found |= {f.key for f in one.found}
            for what in ("memory", "memory_accounts"):
                for key, row in rows(one, what).items():
                    if row.get("stuck_at_bytes"):
                        self.stuck.add(key)
                    row.pop("stuck_at_bytes", None)
                    self.known[what, key] = tuple(row.values())
            if one.cpu:
                self.cpu = (one.at_us, one.cpu)
            self.reserves |= {reserve.application: reserve for reserve in one.reserves}
            for key in table(one.gone)[0].tolist():
                self.found.discard(key)
                self.stuck.discard(key)
                self.known = {at: row for at, row in self.known.items() if at[1] != key}


@given(reports())
def test_nothing_is_lost(given_reports: list[Report]) -> None:
    merged = given_reports[0]
    for newer in given_reports[1:]:
        merged = merge(merged, newer)
    one, all_of_them = Heard(merged), Heard(*given_reports)
    assert vars(one) == vars(all_of_them)
    assert merged.number == given_reports[-1].number
    assert merged.room_bytes == given_reports[-1].room_bytes


def test_a_container_that_came_and_went_is_only_gone() -> None:
    merged = merge(
        report(1, found=(found(3),), memory=columns([(3, 1, 1, 1, 1)])), report(2, gone=columns([(3,)]))
    )
    assert (merged.found, merged.memory) == ((), b"")
    assert table(merged.gone).tolist() == [[3]]
