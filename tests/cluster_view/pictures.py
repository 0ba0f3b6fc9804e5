"""The page's picture with a made-up cluster: `python -m tests.cluster_view.pictures FILE`.

For where no lab can run; `surgekit docs screenshots` takes more of them, of a lab.
"""

from __future__ import annotations

import sys
from pathlib import Path

from experiments import browser
from tests.cluster_view.clusters import small
from tests.cluster_view.feed import served


def take(file: Path) -> None:
    with served(small()) as feed, browser.started() as chromium:
        tab = chromium.new_page(viewport={"width": 1440, "height": 900}, device_scale_factor=1.5)
        tab.set_default_timeout(120_000)
        tab.goto(feed.url)
        tab.get_by_role("link", name="ComboFunc in shop").wait_for()
        tab.screenshot(path=file)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
