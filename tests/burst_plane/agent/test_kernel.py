"""Processes that the loop waits for, and those that nobody does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from burst_plane.agent.kernel import Child, run

ENVIRONMENT = {"PATH": os.environ["PATH"]}

# In a process of its own: a subreaper would take others' orphans, too.
ORPHANS = """
import asyncio, os, time
from burst_plane.agent.kernel import Child, become_subreaper, reap_others, run

def zombies():
    own = str(os.getpid())
    stats = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        stats.append((fields[0], fields[1]))
    return stats.count(("Z", own))

async def main():
    become_subreaper()
    code, out, _ = await run(["sh", "-c", "sleep 0 & sleep 0 & exit 3"])
    while zombies() < 2:
        await asyncio.sleep(0.01)
    reap_others()
    assert (code, zombies()) == (3, 0)
    one = Child.start(["sh", "-c", "exit 7"], (0, 1, 2), os.environ)
    while not zombies():
        time.sleep(0.01)  # the loop must not see it
    reap_others()
    assert await one.ended == 7

asyncio.run(main())
"""


def test_orphans_are_reaped_and_children_keep_their_exit_codes() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHANS], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_a_command_says_and_how_it_ends() -> None:
    async def act() -> None:
        assert await run(["cat"], stdin=b"in") == (0, b"in", b"")
        assert await run(["sh", "-c", "echo wrong >&2; exit 4"]) == (4, b"", b"wrong\n")
        code, _, said = await run(["sleep", "60"], timeout_s=0.1)
        assert (code, b"took longer" in said) == (-9, True)

    asyncio.run(act())


def test_a_child_that_is_killed() -> None:
    async def act() -> None:
        with open(os.devnull, "r+b") as nothing:
            stdio = (nothing.fileno(),) * 3
            child = Child.start(["sleep", "60"], stdio, ENVIRONMENT)
            child.kill()
            assert await child.ended == -9
        child.kill()  # nothing to do

    asyncio.run(act())
