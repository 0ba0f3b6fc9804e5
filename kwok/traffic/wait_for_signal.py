"""Keep a lab process with an event loop running until it is told to stop."""

from __future__ import annotations

import asyncio
import signal

__all__ = ["wait_for_signal"]


async def wait_for_signal() -> None:
    """Return at the first SIGTERM or SIGINT."""
    received = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received.set)
    await received.wait()
