"""The speed of each emulated node over time, as data: the same seed gives the same speeds.

ComboFunc fig. 3: a node's creation speed is volatile from moment to moment, while the long-term averages of
like nodes are alike. So every node's speed is a mean-reverting random walk around one mean (in the
logarithm of tau), and the fastest and the slowest node differ by at most `max_ratio`.
"""

from __future__ import annotations

import json
import math
import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from kwok.errors import ScenarioError
from kwok.physics import MEASURED, MEASURED_SPEED, PAPER, NodeSpeed, Physics, check

__all__ = ["SPREAD", "Image", "Scenario", "Walk", "tagged"]


SPREAD = 0.34  # the standard deviation of ln(tau) with the defaults of `Walk`


@dataclass(frozen=True)
class Walk:
    """The random walk of a node's speed. The defaults are the distribution that the benches use.

    A step is a minute, the resolution of the traces whose load changes the speeds in fig. 3; each node
    takes its steps at moments of its own. In steady state ln(tau) has a standard deviation of volatility /
    sqrt(2 * reversion - reversion**2) = 0.34. It forgets its past in step_s / reversion = 10 minutes, and
    is clipped at +-ln(max_ratio) / 2.
    """

    step_s: float = 60.0
    reversion: float = 0.1
    volatility: float = 0.148
    max_ratio: float = 3.0

    def __post_init__(self) -> None:
        check("walk.step_s", self.step_s, 0.01, 3600)
        check("walk.reversion", self.reversion, 1e-6, 1)
        check("walk.volatility", self.volatility, 0, 10)
        check("walk.max_ratio", self.max_ratio, 1, 100)

    @classmethod
    def of_spread(cls, spread: float, step_s: float) -> Walk:
        """A walk whose ln(tau) has this standard deviation before it is clipped."""
        reversion = cls.reversion
        volatility = spread * math.sqrt(2 * reversion - reversion**2)
        return cls(step_s, reversion, volatility, max(cls.max_ratio ** (spread / SPREAD), 1.0))


@dataclass(frozen=True)
class Image:
    """The cost of the first use of an image on a node."""

    pull_s: float = 0.0
    size_bytes: int = 50_000_000

    def __post_init__(self) -> None:
        check("pull_s", self.pull_s, 0, 3600)
        check("size_bytes", self.size_bytes, 0, 1e13)


@dataclass(frozen=True)
class Scenario:
    """Node speeds over time and pull times of images. Times count from the start of the model."""

    seed: int
    nodes: Mapping[str, NodeSpeed]
    other_nodes: NodeSpeed
    walk: Walk | None = None
    images: Mapping[str, Image] = field(default_factory=dict)
    other_images: Image = field(default_factory=Image)
    physics: Physics = field(default_factory=Physics)
    epoch_s: float = 0.0  # Unix time of the model's time 0; set when a lab starts the model
    _paths: dict[str, _Path] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = {tagged(name): image for name, image in self.images.items()}
        object.__setattr__(self, "images", named)

    @classmethod
    def draw(
        cls,
        seed: int,
        node_names: Iterable[str],
        *,
        tau_create_s: float = MEASURED_SPEED.tau_create_s,
        tau_resize_s: float = MEASURED_SPEED.tau_resize_s,
        walk: Walk | None = None,
        images: Mapping[str, Image] | None = None,
        physics: Physics = MEASURED,
    ) -> Scenario:
        """Nodes with independent random walks around one mean, which contend as a real node does."""
        speed = NodeSpeed(tau_create_s, tau_resize_s)
        nodes = dict.fromkeys(node_names, speed)
        return cls(seed, nodes, speed, walk or Walk(), images or {}, physics=physics)

    @classmethod
    def equal(
        cls,
        node_names: Iterable[str] = (),
        *,
        tau_create_s: float = 0.5,
        tau_resize_s: float = 0.1,
        images: Mapping[str, Image] | None = None,
        physics: Physics = PAPER,
    ) -> Scenario:
        """All nodes alike, at all times, and without chance: exact times for tests."""
        speed = NodeSpeed(tau_create_s, tau_resize_s)
        nodes = dict.fromkeys(node_names, speed)
        return cls(0, nodes, speed, None, images or {}, physics=physics)

    def tau_create_s(self, node: str, at_s: float) -> float:
        """Seconds to create one container alone on `node`, as of time `at_s`."""
        return self._path(node).value(at_s)

    def tau_resize_s(self, node: str) -> float:
        return self._speed(node).tau_resize_s

    def next_change_s(self, node: str, after_s: float) -> float:
        """When tau_create_s changes next; infinite if never."""
        return self._path(node).next_change_s(after_s)

    def luck(self, job: str) -> float:
        """How much more or less work this job is than others of its kind, as a factor around 1.

        A lab names jobs by the pods' uids, so it draws others in each run.
        """
        spread = self.physics.spread
        return math.exp(random.Random(f"{self.seed}/{job}").gauss(0.0, spread)) if spread else 1.0

    def image(self, name: str) -> Image:
        return self.images.get(tagged(name), self.other_images)

    def started(self, epoch_s: float) -> Scenario:
        return replace(self, epoch_s=epoch_s)

    def _speed(self, node: str) -> NodeSpeed:
        return self.nodes.get(node, self.other_nodes)

    def _path(self, node: str) -> _Path:
        if node not in self._paths:
            speed = self._speed(node)
            walks = self.walk is not None and not speed.changes
            self._paths[node] = (
                _WanderingPath(speed.tau_create_s, self.walk, f"{self.seed}/{node}")
                if walks and self.walk
                else _FixedPath(speed)
            )
        return self._paths[node]

    def to_json(self) -> str:
        content = asdict(replace(self))
        del content["_paths"]
        return json.dumps(content, indent=1)

    @classmethod
    def load(cls, file: Path) -> Scenario:
        """Read YAML or JSON; an error names the key and the value."""
        try:
            content = yaml.safe_load(file.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise ScenarioError(f"scenario {str(file)!r} cannot be read: {error}") from error
        return cls.parse(content)

    @classmethod
    def parse(cls, content: Any) -> Scenario:
        top = _known("scenario", content, set(cls.__dataclass_fields__) - {"_paths"})
        if missing := sorted({"seed", "other_nodes"} - set(top)):
            raise ScenarioError(f"scenario: key {missing[0]!r} is missing")
        return cls(
            seed=int(check("seed", top["seed"], -(2**63), 2**63)),
            nodes={n: _speed_of(f"nodes.{n}", s) for n, s in _mapping("nodes", top.get("nodes")).items()},
            other_nodes=_speed_of("other_nodes", top["other_nodes"]),
            walk=None if top.get("walk") is None else Walk(**_known("walk", top["walk"], _keys(Walk))),
            images={n: _image_of(f"images.{n}", i) for n, i in _mapping("images", top.get("images")).items()},
            other_images=_image_of("other_images", top.get("other_images", {})),
            physics=Physics(**_known("physics", top.get("physics"), _keys(Physics))),
            epoch_s=check("epoch_s", top.get("epoch_s", 0.0), 0, 1e11),
        )


class _Path:
    """tau_create_s of one node as a step function of time."""

    def value(self, at_s: float) -> float:
        raise NotImplementedError

    def next_change_s(self, after_s: float) -> float:
        raise NotImplementedError


class _FixedPath(_Path):
    def __init__(self, speed: NodeSpeed) -> None:
        self._times = [at_s for at_s, _ in speed.changes]
        self._taus = [speed.tau_create_s, *(tau_s for _, tau_s in speed.changes)]

    def value(self, at_s: float) -> float:
        return self._taus[bisect_right(self._times, at_s)]

    def next_change_s(self, after_s: float) -> float:
        later = bisect_right(self._times, after_s)
        return self._times[later] if later < len(self._times) else math.inf


class _WanderingPath(_Path):
    """Drawn as far as needed. The seed is a text, from which Python draws the same numbers on every machine
    and in every process (no hash randomisation)."""

    def __init__(self, mean_s: float, walk: Walk, seed: str) -> None:
        self._mean_s, self._walk = mean_s, walk
        self._random = random.Random(seed)
        self._bound = math.log(walk.max_ratio) / 2
        steady = walk.volatility / math.sqrt(2 * walk.reversion - walk.reversion**2)
        self._logs = [self._clip(self._random.gauss(0.0, steady))]
        self._phase_s = self._random.uniform(0.0, walk.step_s)

    def value(self, at_s: float) -> float:
        step = self._step(at_s)
        while len(self._logs) <= step:
            drift = self._logs[-1] * (1 - self._walk.reversion)
            self._logs.append(self._clip(drift + self._random.gauss(0.0, self._walk.volatility)))
        return self._mean_s * math.exp(self._logs[step])

    def next_change_s(self, after_s: float) -> float:
        return self._start_s(self._step(after_s) + 1)

    def _step(self, at_s: float) -> int:
        at_s = max(at_s, 0.0)
        step = math.floor((at_s + self._phase_s) / self._walk.step_s)
        # Near a boundary the division may round either way.
        return step + (at_s >= self._start_s(step + 1)) - (at_s < self._start_s(step))

    def _start_s(self, step: int) -> float:
        return step * self._walk.step_s - self._phase_s

    def _clip(self, value: float) -> float:
        return max(-self._bound, min(self._bound, value))


def tagged(image: str) -> str:
    """The image name with its tag, as nodes list it and kube-scheduler's ImageLocality compares it."""
    return image if ":" in image.rsplit("/", 1)[-1] or "@" in image else f"{image}:latest"


def _keys(cls: type[Any]) -> set[str]:
    return set(cls.__dataclass_fields__)


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ScenarioError(f"{key}: {value!r} must hold keys and values")
    return value or {}


def _known(key: str, value: Any, keys: set[str]) -> dict[str, Any]:
    content = dict(_mapping(key, value))
    if unknown := sorted(set(content) - keys):
        raise ScenarioError(f"{key}: unknown key {unknown[0]!r}; known: {', '.join(sorted(keys))}")
    return content


def _speed_of(key: str, value: Any) -> NodeSpeed:
    content = _known(key, value, _keys(NodeSpeed))
    try:
        content["changes"] = tuple((at_s, tau_s) for at_s, tau_s in content.get("changes", ()))
        return NodeSpeed(**content)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{key}: {value!r} is not a node's speed: {error}") from error


def _image_of(key: str, value: Any) -> Image:
    return Image(**_known(key, value, _keys(Image)))
