"""Settings of the Karpenter hook."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from surgekit.process.modes import Mode
from surgekit.process.settings import LeaderSettings, SettingsError, setting

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings(LeaderSettings):
    PART: ClassVar[str] = "node_planner"

    mode: Mode = setting(
        Mode.SHADOW,
        "off (takes its gate off pods, plans nothing), shadow (the same, but writes plans and prices into "
        "its NodePlan) or enforce (rents; needs a catalogue and a node class)",
    )
    pool: str = setting("fcma", "value of the label surgekit.dev/pool of our nodes, and name of the NodePlan")
    catalogue: Path | None = setting(
        None, "file of classes and prices, .yaml or the paper's .csv; none: the AWS table that is shipped, "
        "which is a sample and not for enforce",
    )  # fmt: skip
    node_class_group: str = setting("", "API group of your provider's node class, such as karpenter.k8s.aws")
    node_class_kind: str = setting("", "kind of that node class, such as EC2NodeClass")
    node_class_name: str = setting("", "name of that node class")
    capacity_type: str = setting("on-demand", "karpenter.sh/capacity-type of the claims; prices are of it")
    zones: tuple[str, ...] = setting(
        (), "zones that the node class rents in, at the catalogue's prices; none: the provider chooses, and "
        "pods that name a zone are left to Karpenter",
    )  # fmt: skip
    architectures: tuple[str, ...] = setting(
        (), "what pods that name no architecture may run on, amd64, arm64 or both; none: what the cluster's "
        "other nodes are",
    )  # fmt: skip
    arm64_classes: str = setting(
        r"^[a-z]+[0-9]+g[a-z]*\.",
        "regular expression of the class names that are arm64; others are amd64. "
        "The label kubernetes.io/arch in the catalogue goes before",
    )
    variant: str = setting("best", "solver: best, paper, ffc or ffp")
    solve_deadline_s: float = setting(
        0.25, "seconds a solve may take before the best plan so far is used", minimum=0.01, maximum=60.0
    )
    batch_idle_s: float = setting(
        0.5, "seconds without a new waiting pod after which a plan is made", minimum=0.0, maximum=60.0
    )
    batch_max_s: float = setting(
        5.0, "seconds after which a plan is made though new pods keep coming", minimum=0.0, maximum=300.0
    )
    reserved_cpu_millicores: float = setting(
        100.0, "millicores of a node that pods cannot have, for a class none of which has been seen yet",
        minimum=0.0, maximum=100000.0,
    )  # fmt: skip
    reserved_memory_mib: float = setting(
        10.0, "MiB of a node that pods cannot have, for a class none of which has been seen yet",
        minimum=0.0, maximum=1000000.0,
    )  # fmt: skip
    pods_per_node: int = setting(110, "pods a node takes at most", minimum=1, maximum=10000)
    max_nodes: int = setting(100, "nodes of ours at most", minimum=0, maximum=100000)
    max_cpu: float = setting(10000.0, "Kubernetes CPUs of all our nodes at most", minimum=0.0, maximum=1e7)
    max_cost_per_hour: float = setting(
        1000.0, "price of all our nodes at most, in the catalogue's currency", minimum=0.0, maximum=1e7
    )
    empty_after_s: float = setting(
        30.0, "seconds a node of ours must have been empty before it goes", minimum=0.0, maximum=86400.0
    )
    launch_timeout_s: float = setting(
        60.0, "seconds after which a claim that did not launch is given up and its class left out",
        minimum=1.0, maximum=3600.0,
    )  # fmt: skip
    unavailable_for_s: float = setting(
        180.0, "seconds a class is left out after it could not be had", minimum=1.0, maximum=86400.0
    )
    longest_wait_s: float = setting(
        300.0, "seconds a pod waits behind the gate without a node on its way; then it is left to Karpenter",
        minimum=1.0, maximum=86400.0,
    )  # fmt: skip
    expire_after: str = setting("720h", "expireAfter of the claims, as Karpenter's own default; or Never")

    def __post_init__(self) -> None:
        if self.batch_max_s < self.batch_idle_s:
            raise SettingsError(
                f"batch_max_s: {self.batch_max_s!r} must be at least batch_idle_s, {self.batch_idle_s!r}"
            )
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", self.pool):
            raise SettingsError(f"pool: {self.pool!r} must be lower-case letters, digits and dashes")
        if not re.fullmatch(r"([0-9]+(s|m|h))+|Never", self.expire_after):
            raise SettingsError(f"expire_after: {self.expire_after!r} is neither a duration nor Never")
        if self.variant not in ("best", "paper", "ffc", "ffp"):
            raise SettingsError(f"variant: {self.variant!r} is not one of best, paper, ffc, ffp")
        try:
            re.compile(self.arm64_classes)
        except re.error as error:
            raise SettingsError(f"arm64_classes: {self.arm64_classes!r}: {error}") from error
        if self.mode is Mode.ENFORCE:
            self._check_live()

    def _check_live(self) -> None:
        for key in ("node_class_group", "node_class_kind", "node_class_name"):
            if not getattr(self, key):
                raise SettingsError(
                    f"{key}: '' must name the node class of your Karpenter provider when mode is enforce"
                )
        if self.catalogue is None:
            raise SettingsError(
                "catalogue: None must name a file with your prices when mode is enforce; the table that is "
                "shipped is a sample"
            )
