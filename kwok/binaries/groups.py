"""The groups of binaries, and the Go modules they are built from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = [
    "CONTAINERS",
    "CORE",
    "COREDNS",
    "ETCD",
    "GROUPS",
    "HELM",
    "KARPENTER",
    "KNATIVE",
    "KNATIVE_SCALING",
    "KUBERNETES",
    "KUBERNETES_VERSION",
    "KWOK",
    "METRICS_SERVER",
    "MICROSERVICE",
    "PROMETHEUS",
    "REAL_NODE",
    "REGISTRY",
    "VPA_RECOMMENDER",
    "Group",
]

_MODULES = Path(__file__).parent
KUBERNETES_VERSION = "v1.36.3"


@dataclass(frozen=True)
class Group:
    """Binaries built together from one pinned Go module, `kwok/binaries/<name>/go.mod`, and its own sources,
    if any."""

    name: str
    packages: Mapping[str, str]  # binary -> Go package
    ldflags: str = "-s -w"
    released: bool = True  # whether the project's releases contain these binaries
    tags: tuple[str, ...] = ()
    manifests: Mapping[str, str] = field(default_factory=dict)  # directory beside the binaries -> Go package

    @property
    def module(self) -> Path:
        return _MODULES / self.name

    def flags(self) -> tuple[str, ...]:
        # -buildvcs=false: the repository's commit must not change a binary built from pinned modules.
        tags = ("-tags", ",".join(self.tags)) if self.tags else ()
        return ("-trimpath", "-buildvcs=false", "-ldflags", self.ldflags, *tags)

    def key(self) -> str:
        """Changes when the pinned sources or the flags change."""
        digest = hashlib.sha256()
        for pattern in ("go.mod", "go.sum", "**/*.go"):
            for file in sorted(self.module.glob(pattern)):
                digest.update(file.read_bytes())
        made = (self.flags(), sorted(self.packages.items()), *sorted(self.manifests.items()))
        digest.update(repr(made).encode())
        return digest.hexdigest()[:16]


# `go build` gives the module a pseudo version; clients and kwokctl read it from these variables.
_VERSION = "k8s.io/component-base/version"
_STAMPED = (
    f"-s -w -X {_VERSION}.gitVersion={KUBERNETES_VERSION} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=36"
)
KUBERNETES = Group(
    "kubernetes",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
    _STAMPED,
)
ETCD = Group("etcd", {"etcd": "go.etcd.io/etcd/server/v3"})
KWOK = Group("kwok", {name: f"sigs.k8s.io/kwok/cmd/{name}" for name in ("kwok", "kwokctl")}, released=False)
# With its KWOK provider, the one that needs no cloud; only the benches and tests of FCMA use it.
KARPENTER = Group("karpenter", {"karpenter": "sigs.k8s.io/karpenter/kwok"}, released=False)
# Without the discovery of targets in clouds: the lab names its targets in files, which are always read. The
# web pages are not in the module, and without the tag `builtinassets` nothing asks for them.
PROMETHEUS = Group(
    "prometheus",
    {"prometheus": "github.com/prometheus/prometheus/cmd/prometheus"},
    released=False,
    tags=("remove_all_sd",),
)
METRICS_SERVER = Group(
    "metrics-server", {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"}, released=False
)
# No lab runs it: the test of charts/ does.
HELM = Group("helm", {"helm": "helm.sh/helm/v4/cmd/helm"}, released=False)
# Of real nodes. The modules are the control plane's, so most packages are in Go's cache already.
REAL_NODE = Group(
    "real-node", {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-proxy")}, _STAMPED
)
# With the four plugins that the lab's configuration names: the stock main also has those of all clouds.
COREDNS = Group("coredns", {"coredns": "surgekit.dev/kwok/binaries/coredns"}, released=False)
# For pulls by real nodes. Its own main, because the stock one listens on localhost only.
REGISTRY = Group("registry", {"registry": "surgekit.dev/kwok/binaries/registry"}, released=False)
# Our own sources, for containers on a real node: kwok/images packs them.
CONTAINERS = Group(
    "containers",
    {name: f"surgekit.dev/kwok/binaries/containers/{name}" for name in ("function-server", "pause")},
    released=False,
)
# One container of an application on cgroups without a kubelet: `surgekit bench escra`.
MICROSERVICE = Group(
    "microservice", {"microservice": "surgekit.dev/kwok/binaries/microservice"}, released=False
)
# Knative's own autoscaler, step by step, and its server for statistics: what burst_plane is compared with.
_KNATIVE_SCALING = "surgekit.dev/kwok/binaries/knative-scaling"
KNATIVE_SCALING = Group(
    "knative-scaling",
    {"knative-scaling": _KNATIVE_SCALING, "knative-statistics": f"{_KNATIVE_SCALING}/statistics"},
    released=False,
)
# Knative Serving as it is, with its manifests; pods that run its queue-proxy, and an ingress (kwok/knative).
KNATIVE = Group(
    "knative",
    {
        f"knative-{name}": f"knative.dev/serving/cmd/{name}"
        for name in ("controller", "autoscaler", "activator", "webhook", "autoscaler-hpa")
    }
    | {f"knative-{name}": f"surgekit.dev/kwok/binaries/knative/{name}" for name in ("pods", "ingress")},
    released=False,
    manifests={
        "knative-serving": "knative.dev/serving/config",
        "knative-networking": "knative.dev/networking/config",
        "knative-caching": "knative.dev/caching/config",
    },
)
# The Vertical Pod Autoscaler's own recommender: a baseline of `surgekit bench escra`.
VPA_RECOMMENDER = Group(
    "vpa-recommender", {"vpa-recommender": "surgekit.dev/kwok/binaries/vpa-recommender"}, released=False
)
CORE = (KWOK, ETCD, KUBERNETES)
GROUPS = (
    *CORE,
    KARPENTER,
    PROMETHEUS,
    METRICS_SERVER,
    HELM,
    REAL_NODE,
    COREDNS,
    REGISTRY,
    CONTAINERS,
    MICROSERVICE,
    KNATIVE_SCALING,
    VPA_RECOMMENDER,
    KNATIVE,
)
