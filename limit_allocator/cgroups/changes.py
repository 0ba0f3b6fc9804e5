"""Which directories and files of the cgroup tree somebody has changed since the last look, by inotify.

So a tick need not read every limit to notice a foreign write, nor every directory to notice a container: that
was half of what a tick cost. Our own writes are reported, too. It is a hint, never the only way: where there
is no inotify (fs.inotify.max_user_instances is 128 by default) or its queue overflows, anything may have
changed.
"""

from __future__ import annotations

import ctypes
import os
import struct

__all__ = ["Changes"]

# linux/inotify.h
_MODIFY, _CREATE, _DELETE, _IGNORED, _OVERFLOW = 0x2, 0x100, 0x200, 0x8000, 0x4000
_EVENT = struct.Struct("iIII")
_READ = 1 << 16
_libc = ctypes.CDLL(None, use_errno=True)


class Changes:
    """Tags name what is watched. Two tags of one file or directory are not possible."""

    def __init__(self) -> None:
        self._file = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)  # -1: there is none
        self._tags: dict[int, object] = {}
        self._unwatched = False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def watch_directory(self, path: str, tag: object) -> int:
        """Tell when something is made or removed in it. Returns what `forget` wants."""
        return self._watch(path, _CREATE | _DELETE, tag)

    def watch_file(self, file: int, tag: object) -> int:
        """Tell when somebody writes what this descriptor has open."""
        return self._watch(f"/proc/self/fd/{file}", _MODIFY, tag)

    def forget(self, watch: int) -> None:
        if self._tags.pop(watch, None) is not None:
            _libc.inotify_rm_watch(self._file, watch)

    def take(self) -> frozenset[object] | None:
        """Tags of what has changed since the last call; None: anything may have."""
        if self._file < 0 or self._unwatched:
            return None
        changed = set()
        overflow = False
        while content := self._read():
            at = 0
            while at < len(content):
                watch, mask, _, length = _EVENT.unpack_from(content, at)
                at += _EVENT.size + length
                overflow |= bool(mask & _OVERFLOW)
                if watch in self._tags:
                    changed.add(self._tags[watch])
                    if mask & _IGNORED:  # removed: its number may be another's
                        del self._tags[watch]
        return None if overflow else frozenset(changed)

    def _watch(self, path: str, mask: int, tag: object) -> int:
        watch: int = _libc.inotify_add_watch(self._file, os.fsencode(path), mask)
        if watch >= 0:
            self._tags[watch] = tag
        elif os.path.exists(path):  # fs.inotify.max_user_watches
            self._unwatched = True
        return watch

    def _read(self) -> bytes:
        try:
            return os.read(self._file, _READ)
        except BlockingIOError:
            return b""
