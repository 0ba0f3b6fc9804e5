"""The list of tests that were not green every time."""

from __future__ import annotations

from tests.flake import not_always_green, outcomes

JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.a" name="green"/>
<testcase classname="tests.a" name="skipped"><skipped message="no haproxy"/></testcase>
<testcase classname="tests.a" name="red"><failure message="assert 1 == 2&#10; more">trace</failure></testcase>
<testcase classname="tests.a" name="torn down"/>
<testcase classname="tests.a" name="torn down"><error message="a lab stayed"/></testcase>
</testsuite></testsuites>"""


def test_a_junit_file_tells_the_first_line_of_each_fault() -> None:
    assert outcomes(JUNIT) == {
        "tests.a::green": "",
        "tests.a::skipped": "",
        "tests.a::red": "assert 1 == 2",
        "tests.a::torn down": "a lab stayed",
    }


def test_green_every_time_is_not_listed() -> None:
    assert not_always_green({"quiet-1": {"t": ""}, "quiet-2": {"t": ""}}) == []


def test_red_once_is_listed_with_its_run() -> None:
    assert not_always_green({"quiet-1": {"t": "", "u": ""}, "loaded-1": {"t": "too late", "u": ""}}) == [
        "t: 1 of 2 (loaded-1): too late"
    ]


def test_a_run_that_ended_early_is_not_green() -> None:
    assert not_always_green({"quiet-1": {"t": ""}, "quiet-2": {}}) == [
        "(no test at all): 1 of 2 (quiet-2): did not run",
        "t: 1 of 2 (quiet-2): did not run",
    ]
