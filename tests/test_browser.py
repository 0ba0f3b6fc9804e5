"""The page that tests look at notices what it must notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser import quiet_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_a_quiet_page_is_left_alone(browser: Browser) -> None:
    with quiet_page(browser) as page:
        page.set_content("<h1>hello</h1><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>")
        assert page.inner_text("h1") == "hello"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("<script>console.error('broken')</script>", "broken"),
        ("<script>throw new Error('thrown')</script>", "thrown"),
        ("<img src='http://127.0.0.1:9/x.png'>", "asked http://127.0.0.1:9/x.png"),
    ],
)
def test_errors_and_requests_are_noticed(browser: Browser, content: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint), quiet_page(browser) as page:
        page.set_content(content)
