"""The page in Chromium: when there is something to see, and how smooth it is while the cluster changes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from experiments import browser

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["figures"]

_ROUND_S = 0.5
_LOADS = 3
_FIRST_PICTURE_JS = "performance.getEntriesByName('first-picture')[0]?.startTime"  # picture/painter.ts
_COUNT_FRAMES_JS = """() => {
  window.frames_ms = [];
  let last = performance.now();
  const next = (now) => { window.frames_ms.push(now - last); last = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def figures(url: str, change: Callable[[], object], rounds: int) -> dict[str, Any]:
    """`change` takes the cluster one round on. The pointer moves and the tiles are scrolled meanwhile."""
    with browser.started() as chromium:
        tab = chromium.new_page(viewport={"width": 1440, "height": 900})
        first_ms = [_first_picture_ms(tab, url) for _ in range(_LOADS)]
        tab.evaluate(_COUNT_FRAMES_JS)
        began_s = time.monotonic()
        for i in range(rounds):
            change()
            tab.mouse.move(100 + 37 * i % 700, 200 + 23 * i % 400)
            tab.mouse.wheel(0, 60 if i % 20 < 10 else -60)
            time.sleep(max(0.0, began_s + (i + 1) * _ROUND_S - time.monotonic()))
        frames_ms = sorted(tab.evaluate("window.frames_ms"))
        took_s = time.monotonic() - began_s
    return {
        "first_picture_ms": round(statistics.median(first_ms)),
        "frames_per_s": round(len(frames_ms) / took_s, 1),
        "frame_ms_p99": round(frames_ms[int(0.99 * len(frames_ms))], 1),
        "frame_ms_worst": round(frames_ms[-1], 1),
    }


def _first_picture_ms(tab: Page, url: str) -> float:
    """From the start of the navigation on, as the page itself marks it."""
    tab.goto("about:blank")
    tab.goto(url)
    while (found := tab.evaluate(_FIRST_PICTURE_JS)) is None:
        tab.wait_for_timeout(20)
    return float(found)
