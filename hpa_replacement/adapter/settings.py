"""Settings of the metrics adapter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surgekit.process.settings import ProcessSettings, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "adapter"

    max_age_intervals: float = setting(
        5.0, "sampling intervals of its policy after which a target is no longer served",
        minimum=1.0, maximum=1000.0,
    )  # fmt: skip
    max_input_age_s: float = setting(
        60.0, "seconds without word from the API server after which nothing is served",
        minimum=5.0, maximum=3600.0,
    )  # fmt: skip
    allowed_for_s: float = setting(
        60.0, "seconds for which it is remembered that somebody may read a metric", minimum=0.0, maximum=600.0
    )
    denied_for_s: float = setting(
        10.0, "seconds for which it is remembered that somebody may not", minimum=0.0, maximum=600.0
    )
    bind: str = setting("0.0.0.0:8443", "address and port where metrics are asked for")
    tls_directory: Path = setting(
        Path("/etc/surgekit/tls"), "directory with tls.crt and tls.key; a renewed pair is served at once"
    )
