"""The catalogue as it is now, and the last good one where the file is faulty.

The file is read again when it changed (a ConfigMap is swapped behind a symlink). Callers get one immutable
catalogue and keep it: a change during a decision is seen by the next. Sample prices are a fault where choices
are carried out: taking `sample: true` away says that the prices are yours.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import structlog

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueError, from_csv, load

__all__ = ["LastGoodCatalogue"]

log = structlog.get_logger(__name__)

_Stamp = tuple[int, int, int] | None


class LastGoodCatalogue:
    def __init__(self, path: Path, live: bool) -> None:
        """Raises CatalogueError: a part that starts with a faulty catalogue would look healthy.

        `live`: nodes are rented by these prices.
        """
        self._path, self._live = path, live
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._current = self._read()
        # Why the file as it is now is not used; None where it is.
        self.error: str | None = None

    def current(self) -> Catalogue:
        with self._lock:
            stamp = self._stamp_now()
            if stamp != self._stamp:
                self._stamp = stamp  # one attempt and one line in the log for each change
                self._reload()
            return self._current

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
