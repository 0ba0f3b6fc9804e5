"""Shows what a cluster does and why: `surgekit ui` in a browser, `surgekit top` in a terminal. Read-only."""
