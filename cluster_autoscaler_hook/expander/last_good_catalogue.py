"""The catalogue file, read again when it changes. While the file is faulty, the last good catalogue stays.

A ConfigMap is swapped behind a symlink. A decision keeps the immutable catalogue it began with; the next one
sees the change. In mode enforce sample prices are a fault: remove `sample: true` when the prices are yours.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import structlog

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueError, from_csv, load

__all__ = ["LastGoodCatalogue"]

log = structlog.get_logger(__name__)

_Stamp = tuple[int, int, int] | None


class LastGoodCatalogue:
    def __init__(self, path: Path, live: bool) -> None:
        """Raise CatalogueError: with a faulty catalogue at the start the expander would only look healthy.

        `live`: nodes are rented at these prices.
        """
        self._path, self._live = path, live
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._current, self._good_s = self._read(), time.monotonic()
        # Why the present file is not used; None if it is.
        self.error: str | None = None

    def current(self) -> Catalogue:
        with self._lock:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._stamp = stamp  # one attempt and one log line for each change
                self._reload()
            if self.error is None:
                self._good_s = time.monotonic()
            return self._current

    def age_s(self) -> float:
        """Seconds since the catalogue in use was the content of the file, at the last look."""
        with self._lock:
            return time.monotonic() - self._good_s

    def _reload(self) -> None:
        try:
            self._current = self._read()
        except CatalogueError as error:
            self.error = str(error)
            log.error("catalogue not reloaded, the previous one stays in use", error=self.error)
        else:
            self.error = None
            log.info("catalogue reloaded", classes=len(self._current.entries))

    def _read(self) -> Catalogue:
        found = from_csv(self._path) if self._path.suffix == ".csv" else load(self._path)
        if found.sample and self._live:
            raise CatalogueError(
                f"{self._path}: these are sample prices, which mode enforce does not take; put yours in, and "
                "take `sample: true` away"
            )
        return found

    def _stamp_now(self) -> _Stamp:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size
