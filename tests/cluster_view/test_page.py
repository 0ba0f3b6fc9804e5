"""The page as a person sees it: with the mouse, with the keyboard, and when the stream is lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from cluster_view.model import Snapshot
from tests.browser import quiet_page
from tests.cluster_view import objects
from tests.cluster_view.clusters import (
    HOSTILE,
    change_of,
    hostile,
    large,
    made_explanation,
    made_node,
    made_pod,
    small,
)
from tests.cluster_view.feed import Feed, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

expect.set_options(timeout=60_000)  # cores are busy


def test_the_head_line_says_what_is_unknown(browser: Browser) -> None:
    with served(small()) as feed, quiet_page(browser, network=True) as page:
        page.goto(feed.url)
        figures = page.locator("header dl")
        for text in ("18", "151", "$3.40", "1,284", "unknown"):
            expect(figures).to_contain_text(text)
        expect(page.get_by_role("status")).to_have_text("live")


def test_a_click_on_a_tile_says_what_its_node_costs(browser: Browser) -> None:
    with served(small()) as feed, quiet_page(browser, network=True) as page:
        page.goto(feed.url)
        tiles = page.get_by_role("listbox", name="Nodes")
        expect(tiles.get_by_role("option")).to_have_count(1)
        tiles.click(position={"x": 110, "y": 12})  # the name of the first node
        panel = page.get_by_role("complementary")
        expect(panel.get_by_role("heading", level=2)).to_contain_text("node-0")
        expect(panel).to_contain_text("$0.101 an hour")
        expect(panel).to_contain_text("was the cheapest way to place 14 waiting pods")


def test_a_click_on_a_pod_shows_who_lost_by_how_much(browser: Browser) -> None:
    snapshot = small()
    pod = next(pod for pod in snapshot["pods"].values() if pod["phase"] == "Creating")
    with served(snapshot) as feed, quiet_page(browser, network=True) as page:
        ranked = {f"node-{n}": 0.6 + 0.2 * n for n in range(8)}
        feed.placements[pod["key"]] = objects.placement(pod["key"], ranked, mode="enforce", bound_to="node-0")
        page.goto(feed.url)
        page.get_by_role("link", name=pod["key"]).click()
        rows = page.get_by_role("table", name="Nodes by cost").get_by_role("row")
        expect(rows).to_have_count(9)
        expect(rows.nth(1)).to_contain_text("best")
        expect(rows.nth(2)).to_contain_text("+200 ms")
        expect(page.get_by_role("complementary")).to_contain_text(
            "the scheduler was told that node-0 is best"
        )
        expect(rows.nth(1).get_by_role("cell").first).to_contain_text("creation alone 0.6")


def test_everything_is_reached_by_keyboard(browser: Browser) -> None:
    with served(small()) as feed, quiet_page(browser, network=True) as page:
        page.goto(feed.url)
        tiles = page.get_by_role("listbox", name="Nodes")
        option = tiles.get_by_role("option")
        expect(option).to_contain_text("node-0: 8 pods")
        _tab_to(page, "[role=listbox]")
        page.keyboard.press("ArrowRight")
        expect(option).to_contain_text("node-1: ")
        page.keyboard.press("End")
        expect(option).to_have_attribute("aria-posinset", "18")
        page.keyboard.press("Enter")
        heading = page.get_by_role("complementary").get_by_role("heading", level=2)
        expect(heading).to_contain_text("node-17")
        expect(heading).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary")).to_have_count(0)
        expect(tiles).to_be_focused()


def test_tables_have_the_same_data_sorted(browser: Browser) -> None:
    with served(small()) as feed, quiet_page(browser, network=True) as page:
        page.goto(feed.url)
        page.get_by_role("link", name="tables").click()
        rows = page.get_by_role("table", name="Nodes").get_by_role("row")
        expect(rows).to_have_count(19)
        page.get_by_role("button", name="$/h").click()
        expect(page.get_by_role("columnheader", name="$/h")).to_have_attribute("aria-sort", "ascending")
        expect(rows.nth(1)).to_contain_text("$0.101")
        page.get_by_role("button", name="$/h").click()
        expect(rows.nth(1)).to_contain_text("$0.357")
        page.get_by_role("link", name="pods 151").click()
        expect(page.get_by_role("table", name="Pods").get_by_role("row")).to_have_count(101)
        page.get_by_role("searchbox").fill("report")
        expect(page.get_by_role("table", name="Pods")).to_contain_text("none yet")


def test_a_function_shows_its_curve_and_decisions(browser: Browser) -> None:
    with served(small()) as feed, quiet_page(browser, network=True) as page:
        page.goto(feed.url)
        page.get_by_role("link", name="KneePolicy in shop").click()
        panel = page.get_by_role("complementary")
        expect(panel.get_by_role("img", name="Score by replicas, with the knee at 9")).to_be_visible()
        expect(panel).to_contain_text("a tenth replica adds 0.4 % of throughput")


def test_shadow_decisions_say_what_would_have_been_different(browser: Browser) -> None:
    with served(small()) as feed, quiet_page(browser, network=True) as page:
        page.goto(feed.url)
        page.get_by_role("button", name="in shadow").click()
        feed_of_decisions = page.get_by_role("region", name="Decisions")
        expect(feed_of_decisions.get_by_role("listitem")).to_have_count(9)
        expect(feed_of_decisions).to_contain_text("In force: 1.7 s sooner")
        expect(feed_of_decisions).to_contain_text("In force: $0.155 an hour cheaper")
        expect(feed_of_decisions).not_to_contain_text("The knee is at 9")


def test_changes_appear_and_objects_go(browser: Browser) -> None:
    snapshot = small()
    with served(snapshot) as feed, quiet_page(browser, network=True) as page:
        page.goto(f"{feed.url}#node=node-3")
        panel = page.get_by_role("complementary")
        expect(panel).to_contain_text("node-3")
        new = made_pod("shop/late-1", "node-3", "Creating")
        feed.push(change_of(snapshot, 1, pods={new["key"]: new}))
        expect(panel.get_by_role("link", name="shop/late-1")).to_contain_text("being created")
        feed.push(change_of(snapshot, 2, pods={new["key"]: new | {"phase": "Ready", "ready_after_s": 1.2}}))
        expect(panel.get_by_role("link", name="shop/late-1")).to_contain_text("Ready after 1.2 s")
        feed.push(change_of(snapshot, 3, pods={new["key"]: None}))
        expect(panel.get_by_role("link", name="shop/late-1")).to_have_count(0)
        feed.push(change_of(snapshot, 4, nodes={"node-3": None, "node-99": made_node("node-99")}))
        expect(panel).to_contain_text("This node is not there.")


def test_a_lost_stream_is_said_and_comes_back(browser: Browser) -> None:
    """Not a quiet page: Chromium itself reports the requests that fail."""
    with served(small()) as feed:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(feed.url)
        expect(page.get_by_role("status")).to_have_text("live")
        feed.lose()
        expect(page.get_by_role("status")).to_contain_text("Connection lost")
        feed.restore()
        expect(page.get_by_role("status")).to_have_text("live")
        page.close()


def test_hostile_texts_are_only_texts(browser: Browser) -> None:
    snapshot = hostile()
    explanation = made_explanation(HOSTILE, [HOSTILE, "__proto__"])
    explanation["mode"], explanation["reasons"] = HOSTILE, [HOSTILE]
    with served(snapshot) as feed, quiet_page(browser, network=True) as page:
        page.route("**/explain/pod/**", lambda route: route.fulfill(json=json.loads(json.dumps(explanation))))
        page.goto(feed.url)
        tiles = page.get_by_role("listbox", name="Nodes")
        expect(tiles.get_by_role("option")).to_contain_text("__proto__: ")
        for number in range(5):
            tiles.focus()
            page.keyboard.press("Home")
            for _ in range(number):
                page.keyboard.press("ArrowRight")
            page.keyboard.press("Enter")
            panel = page.get_by_role("complementary")
            expect(panel.get_by_role("heading", level=2)).to_be_focused()
            page.keyboard.press("Escape")
        page.locator(".functions a").click()
        expect(page.get_by_role("complementary")).to_contain_text(HOSTILE)
        page.get_by_role("complementary").get_by_role("link").first.click()
        expect(page.get_by_role("table", name="Nodes by cost").get_by_role("row")).to_have_count(3)
        for table in ("nodes", "pods", "functions"):
            page.get_by_role("link", name="tables").click()
            page.get_by_role("link", name=f"{table} ").click()
            expect(page.get_by_role("table", name=table.capitalize(), exact=True)).to_contain_text(HOSTILE)
        assert page.locator("img").count() == 0
        assert page.title() == f"{HOSTILE} · surgekit"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_system_and_moves_nothing_unasked(browser: Browser, scheme: str) -> None:
    with (
        served(small()) as feed,
        quiet_page(browser, network=True, color_scheme=scheme, reduced_motion="reduce") as page,
    ):
        page.goto(feed.url)
        expect(page.get_by_role("link", name="ComboFunc in shop")).to_be_visible()
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(246, 246, 243)" if scheme == "light" else "rgb(20, 23, 27)")
        assert page.evaluate("document.getAnimations().length") == 0


def test_a_thousand_nodes_are_drawn_while_they_change(browser: Browser) -> None:
    """That it goes on drawing; how fast is the bench's: `surgekit bench ui`."""
    snapshot = large()
    with served(snapshot) as feed, quiet_page(browser, network=True) as page:
        page.goto(feed.url)
        expect(page.locator("#active-node")).to_have_attribute("aria-setsize", "1000")
        frames = page.evaluate_handle(
            "() => { const seen = {n: 0}; const next = () => { seen.n += 1; requestAnimationFrame(next); };"
            " next(); return seen; }"
        )
        for round_ in range(4):
            _restart_some(feed, snapshot, round_)
            page.mouse.move(300, 300)
            page.mouse.wheel(0, 120)
        expect(page.get_by_role("heading", name="Pods on their way")).to_contain_text(
            "400 pods being created"
        )
        assert frames.evaluate("seen => seen.n") >= 4


def _restart_some(feed: Feed, snapshot: Snapshot, round_: int) -> None:
    pods = list(snapshot["pods"].values())
    changed = {
        pod["key"]: pod | {"phase": "Creating" if index // 100 <= round_ else "Ready"}
        for index, pod in enumerate(pods)
        if index < 400 or pod["phase"] == "Creating"
    }
    feed.push(change_of(snapshot, round_, pods=changed))


def _tab_to(page: Page, selector: str) -> None:
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement?.matches(selector)", selector):
            return
    raise AssertionError(f"Tab does not lead to {selector}")
