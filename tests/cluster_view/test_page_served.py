"""The page as our own server gives it: what the server forbids, the page does not need."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from cluster_view.readers import read_pod
from tests.browser import quiet_page
from tests.cluster_view import objects
from tests.cluster_view.test_server import Served, page  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from playwright.sync_api import Browser

expect.set_options(timeout=60_000)  # cores are busy


def test_a_pod_appears_and_a_click_names_the_losers(browser: Browser, page: Served) -> None:  # noqa: F811
    page.add_node("n0")
    with quiet_page(browser, network=True) as seen:
        seen.goto(f"http://localhost:{page.port}/")
        expect(seen.get_by_role("status")).to_have_text("live")
        pod = read_pod(objects.pod("web-1", "n0"))
        assert pod is not None
        with page.publisher._news:
            page.state.put_pod(pod, time.time())
        page.publisher.round(time.time())
        seen.get_by_role("link", name="shop/web-1").click()
        rows = seen.get_by_role("table", name="Nodes by cost").get_by_role("row")
        expect(rows).to_have_count(3)
        assert page.asked == ["shop/web-1"]
