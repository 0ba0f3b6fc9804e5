"""Each extra brings what its packages import: no less, and no more than all of them together need."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaging.test_package_lists import PACKAGES, PYPROJECT
from tests.paths import ROOT

PROJECT = PYPROJECT["project"]
# The packages an extra is for. Whatever is in none of them must do with the core.
PACKAGES_OF = {
    "combofunc": {"combofunc"},
    "escra": {"limit_allocator"},
    "fcma": {"cluster_autoscaler_hook"},
    "kneescale": {"hpa_replacement"},
    "pulsenet": {"burst_plane"},
    "view": {"cluster_view"},
    "lab": {"kwok", "experiments"},
}
MODULE_OF = {"grpcio": "grpc", "protobuf": "google", "pyyaml": "yaml", "websocket-client": "websocket"}
# Modules that another distribution in our list brings.
BROUGHT = {
    "jinja2": "flask",
    "markdown_it": "rich",
    "markupsafe": "flask",
    "requests": "prometheus-api-client",
    "urllib3": "kubernetes",
    "werkzeug": "flask",
}
# Modules that one function imports and that its caller can do without.
OPTIONAL = {"hpa_replacement/plot.py": {"matplotlib"}}
# ComboFunc's oracle is for tests and benches.
ORACLES = {"combofunc/planner/exact.py"}
# Plumbing that reads Prometheus or serves gRPC comes with the parts that do.
WITH_PARTS = ("surgekit/prometheus/", "surgekit/tls/grpc_credentials.py", "surgekit/wire/")


def distributions(extra: str | None = None) -> set[str]:
    """The distributions an installation asks for by itself, by name."""
    wanted = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found: set[str] = set()
    for requirement in wanted:
        name, inner = re.fullmatch(r"([a-z0-9-]+)(?:\[(.+)\])?.*", requirement).groups()  # type: ignore[union-attr]
        found |= {d for e in inner.split(",") for d in distributions(e)} if inner else {name}
    return found


@pytest.mark.parametrize("extra", [None, *PACKAGES_OF])
def test_an_installation_has_what_its_packages_import(extra: str | None) -> None:
    core = PACKAGES - set().union(*PACKAGES_OF.values())
    files = [file for name in PACKAGES_OF.get(extra or "", core) for file in (ROOT / name).rglob("*.py")]
    installed = distributions() | (distributions(extra) if extra else set())
    assert {(str(file), d) for file in files for d in _imported(file) if d not in installed} == set()


def test_nothing_is_installed_for_nobody() -> None:
    used = {
        d for name in PACKAGES for file in (ROOT / name).rglob("*.py") for d in _imported(file, every=True)
    }
    assert distributions() | distributions("lab") == used


def test_no_distribution_is_named_twice() -> None:
    for wanted in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        names = [re.split(r"[<>=!\[]", requirement)[0] for requirement in wanted]
        assert len(names) == len(set(names))


def _imported(file: Path, every: bool = False) -> Iterator[str]:
    """Distributions that a module of ours imports; unless `every`, without what it can do without."""
    name = str(file.relative_to(ROOT))
    if not every and (name in ORACLES or name.startswith(WITH_PARTS)):
        return
    skipped = set() if every else OPTIONAL.get(name, set())
    distribution_of = {module: distribution for distribution, module in MODULE_OF.items()}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module or ""]
        else:
            continue
        for module in {name.partition(".")[0] for name in modules} - skipped - PACKAGES:
            if module not in sys.stdlib_module_names:
                yield BROUGHT.get(module) or distribution_of.get(module) or module.replace("_", "-")
