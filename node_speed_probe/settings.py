"""Settings of the probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cluster_model.contention import ContentionForm
from surgekit.process.modes import Mode
from surgekit.process.settings import LeaderSettings, SettingsError, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(LeaderSettings):
    PART: ClassVar[str] = "probe"

    mode: Mode = setting(
        Mode.ENFORCE,
        "off (nothing is watched), shadow (measures, exports metrics) or enforce (publishes too)",
    )
    contention: ContentionForm = setting(
        ContentionForm.MEASURED,
        "measured or paper: how much creations on one node slow each other down; the same as the extender's",
    )
    half_life_s: float = setting(
        120.0, "seconds after which a sample, and a node's difference from its peers, counts half",
        minimum=1.0, maximum=86400.0,
    )  # fmt: skip
    outlier_factor: float = setting(
        3.0, "a sample counts at most this many times the median, and at least the median over it",
        minimum=1.5, maximum=100.0,
    )  # fmt: skip
    default_tau_create_s: float = setting(
        1.0,
        "seconds to create one container while no node at all has been measured",
        minimum=1e-3,
        maximum=3600.0,
    )
    prior_samples: float = setting(
        1.0, "how many samples the prior (the peers' median) is worth", minimum=0.01, maximum=100.0
    )
    hung_after_s: float = setting(
        120.0, "seconds after which a creation that also took 20 times the estimate is given up as hung",
        minimum=1.0, maximum=86400.0,
    )  # fmt: skip
    publish_interval_s: float = setting(
        2.0, "seconds between two rounds of estimating and publishing", minimum=0.1, maximum=300.0
    )
    writes_per_s: float = setting(
        20.0, "NodeSpeed objects written per second at most", minimum=0.1, maximum=1000.0
    )
    change_threshold: float = setting(
        0.05, "relative change of an estimate that is worth a write", minimum=0.001, maximum=1.0
    )
    refresh_s: float = setting(
        300.0, "seconds (give or take 20 %) after which an unchanged estimate is written again",
        minimum=1.0, maximum=86400.0,
    )  # fmt: skip
    max_input_age_s: float = setting(
        60.0, "seconds without word from the API server after which the probe is not ready",
        minimum=5.0, maximum=3600.0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        if self.refresh_s <= self.publish_interval_s:
            raise SettingsError(
                f"refresh_s: {self.refresh_s!r} must be more than publish_interval_s, "
                f"{self.publish_interval_s!r}"
            )
