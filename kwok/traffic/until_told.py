"""How a process of the lab that lives in an event loop waits for its end."""

from __future__ import annotations

import asyncio
import signal

__all__ = ["until_told"]


async def until_told() -> None:
    """Until SIGTERM or SIGINT."""
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await told.wait()
