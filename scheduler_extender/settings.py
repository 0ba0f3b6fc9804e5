"""Settings of the extender."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cluster_model.contention import ContentionForm
from surgekit.process.modes import Mode
from surgekit.process.settings import ProcessSettings, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(ProcessSettings):
    PART: ClassVar[str] = "extender"

    mode: Mode = setting(
        Mode.ENFORCE, "off, shadow or enforce: the most any pod can get, whatever its labels ask for"
    )
    scheduler_name: str = setting(
        "surgekit", "pods with this spec.schedulerName are opted in without a label"
    )
    price_weight: float = setting(
        0.25,
        "lambda of eq. (11): seconds of scaling time that one priced unit (a core or a GiB) is worth",
        minimum=0.0,
        maximum=1e6,
    )
    price_swing: float = setting(
        0.5, "x of eqs (7) and (8): how far a price moves from 1 as a node empties", minimum=0.0, maximum=1.0
    )
    contention: ContentionForm = setting(
        ContentionForm.MEASURED,
        "measured or paper: how much creations on one node slow each other down; the same as the probe's",
    )
    default_tau_create_s: float = setting(
        1.0, "seconds to create one container on a node no probe has measured", minimum=1e-3, maximum=3600.0
    )
    default_image_pull_s: float = setting(
        2.0, "seconds an image pull is taken to cost when none was ever measured", minimum=0.0, maximum=3600.0
    )
    assumed_pod_ttl_s: float = setting(
        15.0,
        "seconds an assumed pod counts on its node while its binding has not been seen",
        minimum=0.1,
        maximum=600.0,
    )
    creation_limit_s: float = setting(
        120.0,
        "seconds after which a pod still being created no longer counts as contention",
        minimum=1.0,
        maximum=3600.0,
    )
    max_input_age_s: float = setting(
        60.0,
        "seconds without word from the API server after which scores are neutral",
        minimum=5.0,
        maximum=3600.0,
    )
    max_speed_age_s: float = setting(
        900.0,
        "seconds after which a node's measured speed is no longer believed",
        minimum=5.0,
        maximum=86400.0,
    )
    max_body_bytes: int = setting(
        32 << 20, "bytes of the largest request taken", minimum=1 << 10, maximum=1 << 30
    )
    decisions_kept: int = setting(2000, "decisions kept for `surgekit explain`", minimum=1, maximum=1_000_000)
    bind: str = setting("0.0.0.0:8443", "address and port where schedulers ask")
    tls_directory: Path | None = setting(
        None, "directory with tls.crt, tls.key and ca.crt (for client certificates); none means plain HTTP"
    )
    client_names: tuple[str, ...] = setting(
        ("kube-scheduler",), "common names of the client certificates that are let in"
    )
