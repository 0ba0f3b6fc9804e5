"""The distribution's Chromium, driven by playwright, which must not download one of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from surgekit.errors import UserError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["NoBrowser", "find", "started"]

# No sandbox: tests may run as root, in which Chromium refuses one. The rest keeps Chromium from calling home.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_START_MS = 120_000  # cores may be busy


class NoBrowser(UserError):
    """There is no Chromium on this machine; the message says how to get one."""


def find() -> str:
    """Raises NoBrowser."""
    if (chromium := shutil.which("chromium")) is None:
        raise NoBrowser("no chromium: apt-get install chromium, or `make setup` as root")
    return chromium


@contextmanager
def started() -> Iterator[Browser]:
    """Headless. While it runs, its thread has an event loop, so no asyncio.run. Raises NoBrowser."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # most runs need no browser

    chromium = find()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=list(_FLAGS), env=dict(os.environ), timeout=_START_MS
        )
        yield browser
        browser.close()
