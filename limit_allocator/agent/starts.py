"""How often the agent has started since the node's boot, and which controller's term it has greeted.

Both make old commands void (`limit_allocator.allocation.ledger`), so both outlive the agent: in a file beside
the journal, on tmpfs. A reboot, which ends all containers, begins anew.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from surgekit.errors import UserError

__all__ = ["BOOT_ID", "Starts", "StartsError"]

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FILE, _ASIDE = "starts", "starts.new"  # neither is one of the journal's names


class StartsError(UserError):
    """The file cannot be used. A lower number than before would make old commands valid: so do not guess."""


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    boot_id: str
    start: int
    term: int


@dataclass(slots=True)
class Starts:
    directory: Path
    boot_id: str
    start: int
    term: int

    @classmethod
    def begin(cls, directory: Path, boot_id: str) -> Starts:
        """Count one more start. Hold the journal's lock before."""
        kept = _read(directory / _FILE)
        if kept is None or kept.boot_id != boot_id:
            kept = _Kept(boot_id, 0, 0)
        starts = cls(directory, boot_id, kept.start + 1, kept.term)
        starts._keep()
        return starts

    def greet(self, term: int) -> None:
        """Remember a controller's term before its first command is carried out."""
        if term > self.term:
            self.term = term
            self._keep()

    def _keep(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = self.directory / _ASIDE
        aside.write_bytes(msgspec.json.encode(_Kept(self.boot_id, self.start, self.term)))
        os.replace(aside, self.directory / _FILE)


def _read(file: Path) -> _Kept | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Kept)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise StartsError(f"{file} cannot be read: {error}; end all agents of the node, remove it") from error
