"""inotify, on ordinary directories and files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from limit_allocator.cgroups import changes as module
from limit_allocator.cgroups.changes import Changes


@pytest.fixture
def changes() -> Iterator[Changes]:
    changes = Changes()
    yield changes
    changes.close()


def test_directories_and_files_that_changed_are_named_once(changes: Changes, tmp_path: Path) -> None:
    (tmp_path / "pod").mkdir()
    (tmp_path / "limit").touch()
    changes.watch_directory(str(tmp_path / "pod"), "pod")
    with (tmp_path / "limit").open() as file:
        changes.watch_file(file.fileno(), 7)
        assert changes.take() == frozenset()
        (tmp_path / "limit").write_text("1")
        (tmp_path / "limit").write_text("2")
        assert changes.take() == frozenset({7})
        (tmp_path / "pod" / "container").mkdir()
        assert changes.take() == frozenset({"pod"})
        (tmp_path / "pod" / "container").rmdir()
        assert changes.take() == frozenset({"pod"})
        assert changes.take() == frozenset()


def test_what_is_forgotten_or_removed_is_not_named(changes: Changes, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    watch = changes.watch_directory(str(tmp_path / "a"), "a")
    changes.forget(watch)
    changes.forget(watch)
    (tmp_path / "a" / "x").mkdir()
    changes.watch_directory(str(tmp_path / "b"), "b")
    (tmp_path / "b").rmdir()
    assert changes.take() == frozenset({"b"}), "that it is gone"
    assert changes.watch_directory(str(tmp_path / "b"), "b") == -1
    assert changes.take() == frozenset()


def test_without_inotify_anything_may_have_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class NoMore:
        def inotify_init1(self, _: int) -> int:
            return -1

        def inotify_add_watch(self, *_: object) -> int:
            return -1

    monkeypatch.setattr(module, "_libc", NoMore())
    changes = Changes()
    changes.watch_directory(str(tmp_path), "pod")
    assert changes.take() is None
    changes.close()


def test_without_watches_anything_may_have_changed(
    changes: Changes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Full:
        def inotify_add_watch(self, *_: object) -> int:
            return -1

    assert changes.take() == frozenset()
    monkeypatch.setattr(module, "_libc", Full())
    changes.watch_directory(str(tmp_path), "pod")
    assert changes.take() is None


def test_a_full_queue_means_that_anything_may_have_changed(changes: Changes, tmp_path: Path) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 100_000:
        pytest.skip("the queue is too long to fill")
    for name in ("a", "b"):  # the kernel merges equal events in a row
        (tmp_path / name).touch()
        with (tmp_path / name).open() as file:
            changes.watch_file(file.fileno(), name)
    files = [os.open(tmp_path / name, os.O_WRONLY) for name in ("a", "b")]
    for turn in range(most + 2):
        os.write(files[turn % 2], b"x")
    for file_number in files:
        os.close(file_number)
    assert changes.take() is None
    assert changes.take() == frozenset()
