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
        "off (removes its gate from pods and plans nothing), shadow (the same, and writes plans and prices "
        "into its NodePlan) or enforce (rents nodes; needs a catalogue and a node class)",
    )
    pool: str = setting(
        "fcma", "value of the label surgekit.dev/pool on the nodes it rents; also the name of its NodePlan"
    )
    catalogue: Path | None = setting(
        None, "file with instance classes and prices, .yaml or the paper's .csv; none: the shipped AWS "
        "table, a sample that enforce refuses",
    )  # fmt: skip
    node_class_group: str = setting("", "API group of your provider's node class, such as karpenter.k8s.aws")
    node_class_kind: str = setting("", "kind of that node class, such as EC2NodeClass")
    node_class_name: str = setting("", "name of that node class")
    capacity_type: str = setting(
        "on-demand", "karpenter.sh/capacity-type of the claims; the catalogue must have its prices"
    )
    zones: tuple[str, ...] = setting(
        (), "zones that the node class rents in, at the catalogue's prices; none: the provider chooses the "
        "zone, and pods that ask for one are left to Karpenter",
    )  # fmt: skip
    architectures: tuple[str, ...] = setting(
        (), "architectures for pods that name none: amd64, arm64 or both; none: those of the cluster's "
        "other nodes",
    )  # fmt: skip
    arm64_classes: str = setting(
        r"^[a-z]+[0-9]+g[a-z]*\.",
        "regular expression for the names of arm64 classes; other classes are amd64. The label "
        "kubernetes.io/arch in the catalogue overrides it",
    )
    variant: str = setting("best", "solver: best, or paper (FCMA as published)")
    solve_deadline_s: float = setting(
        0.25, "seconds a solve may take; then the best plan found so far is used", minimum=0.01, maximum=60.0
    )
    batch_idle_s: float = setting(
        0.5, "seconds without a new waiting pod before a plan is made", minimum=0.0, maximum=60.0
    )
    batch_max_s: float = setting(
        5.0, "seconds after which a plan is made even if new pods keep coming", minimum=0.0, maximum=300.0
    )
    reserved_cpu_millicores: float = setting(
        100.0, "millicores that pods cannot use on a node, assumed until a node of the class has been seen",
        minimum=0.0, maximum=100000.0,
    )  # fmt: skip
    reserved_memory_mib: float = setting(
        10.0, "MiB that pods cannot use on a node, assumed until a node of the class has been seen",
        minimum=0.0, maximum=1000000.0,
    )  # fmt: skip
    pods_per_node: int = setting(110, "maximum number of pods on a node", minimum=1, maximum=10000)
    max_nodes: int = setting(100, "maximum number of nodes in the pool", minimum=0, maximum=100000)
    max_cpu: float = setting(
        10000.0, "maximum Kubernetes CPUs of all nodes in the pool", minimum=0.0, maximum=1e7
    )
    max_cost_per_hour: float = setting(
        1000.0,
        "maximum price of all nodes in the pool, in the catalogue's currency",
        minimum=0.0,
        maximum=1e7,
    )
    empty_after_s: float = setting(
        30.0, "seconds a node must be empty before it is removed", minimum=0.0, maximum=86400.0
    )
    launch_timeout_s: float = setting(
        60.0, "seconds after which a claim that did not launch is deleted and its class left out",
        minimum=1.0, maximum=3600.0,
    )  # fmt: skip
    unavailable_for_s: float = setting(
        180.0,
        "seconds a class is left out of plans after it could not be rented",
        minimum=1.0,
        maximum=86400.0,
    )
    longest_wait_s: float = setting(
        300.0, "seconds a gated pod waits without a node being prepared for it; then it is left to Karpenter",
        minimum=1.0, maximum=86400.0,
    )  # fmt: skip
    expire_after: str = setting(
        "720h", "expireAfter of the claims (the default is Karpenter's own), or Never"
    )

    def __post_init__(self) -> None:
        if self.batch_max_s < self.batch_idle_s:
            raise SettingsError(
                f"batch_max_s: {self.batch_max_s!r} must be at least batch_idle_s, {self.batch_idle_s!r}"
            )
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", self.pool):
            raise SettingsError(f"pool: {self.pool!r} must be lower-case letters, digits and dashes")
        if not re.fullmatch(r"([0-9]+(s|m|h))+|Never", self.expire_after):
            raise SettingsError(f"expire_after: {self.expire_after!r} is neither a duration nor Never")
        if self.variant not in ("best", "paper"):
            raise SettingsError(f"variant: {self.variant!r} is neither best nor paper")
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
