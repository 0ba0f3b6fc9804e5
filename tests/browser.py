"""A page in the distribution's Chromium: what it shows; that it asks no other host and reports no error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from experiments.browser import NoBrowser, started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

__all__ = ["browser", "quiet_page"]

_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost"})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium. Of a module: while it runs, its thread has an event loop, so no asyncio.run."""
    try:
        with started() as chromium:
            yield chromium
    except NoBrowser as error:
        pytest.skip(str(error))


@contextmanager
def quiet_page(browser: Browser, *, network: bool = False, **context: object) -> Iterator[Page]:
    """A new page. Fails at the end if it wrote an error to the console or asked another host.

    Without `network` even this machine's own hosts are not to be asked: the page is a file.
    """
    wrong: list[str] = []

    def asked(request: Request) -> None:
        url = urlsplit(request.url)
        local = url.scheme in ("file", "data", "blob") or (network and url.hostname in _LOCAL_HOSTS)
        if not local:
            wrong.append(f"asked {request.url}")

    def said(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            wrong.append(f"console: {message.text}")

    opened = browser.new_context(**context)  # type: ignore[arg-type]  # its keyword arguments are playwright's
    opened.set_default_timeout(60_000)  # cores are busy
    page = opened.new_page()
    page.on("request", asked)
    page.on("console", said)
    page.on("pageerror", lambda error: wrong.append(f"error {error}"))
    yield page
    opened.close()
    if wrong:
        raise AssertionError("; ".join(wrong))
