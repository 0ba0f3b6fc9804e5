"""The catalogue file, read again when it changes. A faulty file is an error, even after a good one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from cluster_autoscaler_hook.catalogue import Catalogue, CatalogueError, from_csv, load

__all__ = ["SHIPPED", "StrictCatalogue"]

SHIPPED = Path(__file__).parent.parent / "data" / "aws_eu_west_1.csv"


class StrictCatalogue:
    """`live`: nodes are rented at these prices, so a sample is refused."""

    def __init__(self, path: Path | None, live: bool = False) -> None:
        self._path, self._live = path or SHIPPED, live
        self._digest = ""
        self._catalogue: Catalogue | None = None

    def read(self) -> tuple[Catalogue, str]:
        """The catalogue and its digest. Raise CatalogueError if the file is faulty now: prices that were
        withdrawn must not rent nodes."""
        try:
            digest = hashlib.sha256(self._path.read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise CatalogueError(f"catalogue {str(self._path)!r} cannot be read: {error}") from error
        if self._catalogue is None or digest != self._digest:
            read = from_csv if self._path.suffix == ".csv" else load
            self._catalogue, self._digest = read(self._path), digest
        if self._live and self._catalogue.sample:
            raise CatalogueError(
                f"{self._path}: sample prices rent nothing; put in your own and remove `sample: true`"
            )
        return self._catalogue, digest
