"""Against processes of which threads, files and cpu are known."""

from __future__ import annotations

import subprocess
import sys

from experiments.process_usage import usage


def test_usage_of_a_process_and_what_it_started() -> None:
    busy = "import os, time; os.fork(); s = time.process_time()\nwhile time.process_time() < s + .1: pass\n"
    child = subprocess.Popen(
        [sys.executable, "-c", busy + "os.write(1, b'x\\n'); os.read(0, 1)"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    with child:
        assert child.stdout
        assert [child.stdout.readline() for _ in range(2)] == [b"x\n"] * 2
        found = usage(child.pid)
        child.communicate(b"12")
    assert found.threads == 2
    assert found.files >= 6
    assert found.memory_mb > 5
    assert found.cpu_s >= 0.15
