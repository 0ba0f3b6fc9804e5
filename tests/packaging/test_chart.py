"""The Helm chart renders what kustomize does, and installs on a real API server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kwok.binaries import CORE, HELM, Binaries
from kwok.lab import Lab
from tests.packaging.chart import PARTS, SETTINGS, kustomize, write
from tests.paths import MANIFESTS, ROOT

Json = dict[str, Any]
SOURCE = ROOT / "charts" / "surgekit"


def test_values_name_every_part_and_every_process() -> None:
    values = yaml.safe_load((SOURCE / "values.yaml").read_text())
    assert set(values["parts"]) == set(PARTS)
    assert set(values["settings"]) == set(SETTINGS)
    assert set(values) | {"global"} == set(
        json.loads((SOURCE / "values.schema.json").read_text())["properties"]
    )


def test_the_image_is_that_of_the_manifests() -> None:
    values = yaml.safe_load((SOURCE / "values.yaml").read_text())
    component = yaml.safe_load((ROOT / "manifests" / "image" / "kustomization.yaml").read_text())
    (image,) = component["images"]
    assert values["image"] == {"repository": image["newName"], "tag": image["newTag"]}


class Chart:
    def __init__(self, directory: Path, binaries: Binaries) -> None:
        self.directory, self._binaries = directory, binaries

    def helm(self, *arguments: str | Path, environ: Json | None = None) -> subprocess.CompletedProcess[str]:
        # Its caches and registries in a directory of the test.
        home = {f"HELM_{name}_HOME": str(self.directory.parent) for name in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [self._binaries.path("helm"), *arguments],
            env=dict(os.environ) | home | (environ or {}),
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def template(self, parts: Iterable[str], **values: Any) -> list[Json]:
        enabled = {"parts": {part: part in set(parts) for part in PARTS}}
        file = self.directory.parent / "values.yaml"
        file.write_text(yaml.safe_dump(enabled | values))
        done = self.helm("template", "surgekit", self.directory, "--values", file, "--kube-version", "1.36.3")
        assert done.returncode == 0, done.stderr
        return [obj for obj in yaml.safe_load_all(done.stdout) if obj]


@pytest.fixture(scope="module")
def chart(built: Callable[..., Binaries], tmp_path_factory: pytest.TempPathFactory) -> Chart:
    binaries = built(*CORE, HELM)
    directory = tmp_path_factory.mktemp("chart") / "surgekit"
    write(directory, binaries)
    return Chart(directory, binaries)


def _by_key(objects: Iterable[Json]) -> dict[tuple[str, str, str], Json]:
    return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in objects}


@pytest.mark.lab
@pytest.mark.parametrize("parts", [*([part] for part in PARTS), list(PARTS)], ids=",".join)
def test_helm_renders_what_kustomize_does(parts: list[str], chart: Chart, binaries: Binaries) -> None:
    rendered = chart.template(parts, namespace={"create": True})
    texts = [kustomize(PARTS[part], binaries) for part in parts]
    _assert_same(rendered, texts)


@pytest.mark.lab
@pytest.mark.parametrize("parts", [*([part] for part in PARTS), list(PARTS)], ids=",".join)
def test_helm_renders_what_kustomize_does_with_cert_manager(
    parts: list[str], chart: Chart, binaries: Binaries, tmp_path: Path
) -> None:
    """The component takes the place of our keeper wherever there is one."""
    shutil.copytree(MANIFESTS, tmp_path / "manifests")
    texts = []
    for part in parts:
        text = kustomize(PARTS[part], binaries)
        if "surgekit.dev/keeper: self-signed" in text:
            own = {"resources": [f"../manifests/{PARTS[part]}"], "components": ["../manifests/cert-manager"]}
            (tmp_path / part).mkdir()
            (tmp_path / part / "kustomization.yaml").write_text(yaml.safe_dump(own))
            text = kustomize(tmp_path / part, binaries)
        texts.append(text)
    if parts == ["extender"]:
        assert _objects(texts) == _objects([kustomize("overlays/cert-manager", binaries)])
    _assert_same(chart.template(parts, namespace={"create": True}, certificates="certManager"), texts)


def _objects(texts: Iterable[str]) -> dict[tuple[str, str, str], Json]:
    return _by_key(obj for text in texts for obj in yaml.safe_load_all(text))


def _assert_same(rendered: list[Json], texts: Iterable[str]) -> None:
    expected = _objects(texts)
    assert len(rendered) == len(expected), "an object is rendered twice or not at all"
    for obj in rendered:
        if obj["kind"] == "CustomResourceDefinition":
            assert obj["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert _by_key(rendered) == expected


@pytest.mark.lab
def test_values_change_image_and_settings(chart: Chart) -> None:
    rendered = _by_key(
        chart.template(
            ["extender"],
            image={"repository": "registry.example/surgekit", "tag": "2"},
            imagePullSecrets=["pull"],
            settings={"extender": {"mode": "shadow"}},
        )
    )
    assert not [key for key in rendered if key[0] == "Namespace"]
    pods = {
        name: (obj["spec"].get("jobTemplate") or obj)["spec"]["template"]
        for (kind, _, name), obj in rendered.items()
        if kind in ("Deployment", "Job", "CronJob")
    }
    for pod in pods.values():
        assert {c["image"] for c in pod["spec"]["containers"]} == {"registry.example/surgekit:2"}
        assert pod["spec"]["imagePullSecrets"] == [{"name": "pull"}]
    (settings,) = [
        o for (_, _, name), o in rendered.items() if name.startswith("surgekit-extender-settings-")
    ]
    assert yaml.safe_load(settings["data"]["settings.yaml"])["mode"] == "shadow"
    restarted = [
        n
        for n, pod in pods.items()
        if "surgekit.dev/changed-settings" in pod["metadata"].get("annotations", {})
    ]
    assert restarted == ["surgekit-extender"]


@pytest.mark.lab
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("parts.extnder=true", "extnder"),
        ("parts.extender=maybe", "parts/extender"),
        ("settings.extender.mod=shadow", "mod"),
        ("image.tag=", "image/tag"),
        ("certificates=letsEncrypt", "certificates"),
    ],
)
def test_wrong_values_are_refused(wrong: str, said: str, chart: Chart) -> None:
    done = chart.helm("template", "surgekit", chart.directory, "--set", wrong)
    assert done.returncode != 0
    assert said in done.stderr


@pytest.mark.lab
def test_the_chart_installs(chart: Chart, binaries: Binaries) -> None:
    with Lab.temporary("chart", instant_pods=True) as lab:
        environ = {"KUBECONFIG": str(lab.kubeconfig)}
        where = ("--namespace", "surgekit-system")
        enabled = [
            f"--set=parts.{part}=true" for part in PARTS if part not in ("monitoring", "adapterApiServices")
        ]
        for verb in (
            ["install", "--create-namespace"],
            ["upgrade", "--set=settings.combofunc.log_level=DEBUG"],
        ):
            done = chart.helm(*verb, "surgekit", chart.directory, *where, *enabled, environ=environ)
            assert done.returncode == 0, done.stderr
        deployments, _ = lab.kube.list_all("/apis/apps/v1/namespaces/surgekit-system/deployments")
        assert "surgekit-combofunc" in {d["metadata"]["name"] for d in deployments}
        done = chart.helm("uninstall", "surgekit", *where, environ=environ)
        assert done.returncode == 0, done.stderr
        crds, _ = lab.kube.list_all("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        assert "combofuncs.surgekit.dev" in {crd["metadata"]["name"] for crd in crds}
