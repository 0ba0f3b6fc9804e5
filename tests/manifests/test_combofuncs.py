"""What the API server says to ComboFuncs and InPlaceDeployments: defaults, refusals, scale, status."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import combofunc.in_place_deployment.spec as deployment_spec
import combofunc.reconcile.spec as combofunc_spec
from combofunc.in_place_deployment.status import Counts, Progress, status_of
from kwok.lab import Lab
from surgekit.kube.client import ApiError
from surgekit.kube.conditions import differs
from tests.combofunc.in_place_deployment import test_spec as deployments
from tests.combofunc.reconcile import test_spec as functions
from tests.combofunc.reconcile import test_status as function_status
from tests.manifests.installed_cluster import MANIFESTS, until

pytestmark = pytest.mark.lab
COMBOFUNCS = "/apis/surgekit.dev/v1alpha1/namespaces/default/combofuncs"
DEPLOYMENTS = "/apis/surgekit.dev/v1alpha1/namespaces/default/inplacedeployments"
EXAMPLES = MANIFESTS / "combofunc" / "examples"
# Every refusal says what to change: in our own words, or in the API server's.
ADVICE = re.compile(
    r"must|should|exclude each other|either every|nothing says|controller's|cannot be changed"
    r"|Required value|supported values|Duplicate value|may not be more than|Too many"
)


@pytest.fixture(scope="module")
def served(installed: Lab) -> Lab:
    def there() -> bool:
        try:
            installed.kube.get(COMBOFUNCS)
            installed.kube.get(DEPLOYMENTS)
        except ApiError:
            return False
        return True

    until(there, "the CRDs are served")
    return installed


def function(name: str = "f", **spec: Any) -> dict[str, Any]:
    return _object("ComboFunc", name, functions.combofunc(**spec))


def deployment(name: str = "web", **spec: Any) -> dict[str, Any]:
    return _object("InPlaceDeployment", name, deployments.deployment(**spec))


def _object(kind: str, name: str, like: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "surgekit.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": like["spec"],
    }


@contextmanager
def created(lab: Lab, path: str, obj: dict[str, Any]) -> Iterator[str]:
    lab.kube.create(path, obj)
    one = f"{path}/{obj['metadata']['name']}"
    try:
        yield one
    finally:
        lab.kube.delete(one)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ApiError) as error:
        call()
    assert error.value.code == 422, error.value.message
    return error.value.message


def test_the_defaults_are_those_of_the_code(served: Lab) -> None:
    made = served.kube.create(COMBOFUNCS, function(), dryRun="All")
    assert {"drain", "inPlace", "keepWarm", "mode", "paused", "targetFrom"} <= set(made["spec"])
    before, after = combofunc_spec.read(functions.combofunc()), combofunc_spec.read(made)
    same: dict[str, Any] = {"namespace": "", "uid": "", "generation": 0}
    assert replace(after, **same) == replace(before, **same)

    made = served.kube.create(DEPLOYMENTS, deployment(), dryRun="All")
    assert {"drain", "paused", "replicas", "strategy"} <= set(made["spec"])
    bare, defaulted = deployment_spec.read(deployments.deployment()), deployment_spec.read(made)
    assert replace(defaulted, **same) == replace(bare, **same)


@pytest.mark.parametrize(("spec", "where"), functions.WRONG, ids=str)
def test_a_nonsensical_combofunc_is_refused(served: Lab, spec: dict[str, Any], where: str) -> None:
    said = refusal(lambda: served.kube.create(COMBOFUNCS, function(**spec), dryRun="All"))
    _names_the_field(said, where)


@pytest.mark.parametrize(("spec", "where"), deployments.WRONG, ids=str)
def test_a_nonsensical_deployment_is_refused(served: Lab, spec: dict[str, Any], where: str) -> None:
    said = refusal(lambda: served.kube.create(DEPLOYMENTS, deployment(**spec), dryRun="All"))
    _names_the_field(said, where)


def _names_the_field(said: str, where: str) -> None:
    told = re.findall(rf"(?<![\w.]){re.escape(where)}[^ :]*: (.*?)(?=, spec\.|$)", said)
    assert told, said
    assert all(ADVICE.search(text) for text in told), said


def test_a_name_is_a_labels_value(served: Lab) -> None:
    for path, obj in ((COMBOFUNCS, function("f" * 64)), (DEPLOYMENTS, deployment("d" * 64))):
        said = refusal(lambda path=path, obj=obj: served.kube.create(path, obj, dryRun="All"))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        assert "metadata.name must have at most 63 characters" in said


def test_the_whole_template_is_kept(served: Lab) -> None:
    pod = {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}], "novelty": {"x": [1]}}
        ],
        "tolerations": [{"operator": "Exists"}],
    }
    template = {"metadata": {"annotations": {"a": "b"}, "labels": {"app": "x"}}, "spec": pod}
    made = served.kube.create(COMBOFUNCS, function(template=template), dryRun="All")
    assert made["spec"]["template"] == template
    made = served.kube.create(DEPLOYMENTS, deployment(template=template), dryRun="All")
    assert made["spec"]["template"] == template


def test_concurrency_is_scaled(served: Lab) -> None:
    with created(served, COMBOFUNCS, function("scaled")) as path:
        served.kubectl("-n", "default", "scale", "combofunc/scaled", "--replicas=40")
        assert served.kube.get(path)["spec"]["targetConcurrency"] == 40
        status = {"readyConcurrency": 7, "selector": "surgekit.dev/combofunc=scaled"}
        served.kube.patch(f"{path}/status", {"status": status})
        scale = served.kube.get(f"{path}/scale")
        assert (scale["spec"]["replicas"], scale["status"]) == (
            40,
            {"replicas": 7, "selector": "surgekit.dev/combofunc=scaled"},
        )
        said = refusal(lambda: served.kube.patch(f"{path}/scale", {"spec": {"replicas": 1_000_000}}))
        assert "spec.targetConcurrency" in said
        assert "100000" in said


def test_replicas_by_hand_have_no_scale(served: Lab) -> None:
    """Else there would be two owners of what is wanted."""
    with created(served, COMBOFUNCS, function("by-hand", **functions.BY_HAND)) as path:
        with pytest.raises(ApiError, match="targetConcurrency"):
            served.kube.patch(f"{path}/scale", {"spec": {"replicas": 5}})
        said = refusal(lambda: served.kube.patch(path, {"spec": {"targetConcurrency": 5}}))
        assert "spec.targetConcurrency" in said
        assert "exclude each other" in said


def test_a_deployment_is_scaled_and_keeps_its_selector(served: Lab) -> None:
    selector = {"matchLabels": {"app": "web"}}
    with created(served, DEPLOYMENTS, deployment("kept", selector=selector)) as path:
        served.kubectl("-n", "default", "scale", "ipd/kept", "--replicas=3")
        assert served.kube.get(path)["spec"]["replicas"] == 3
        for changed in ({"matchLabels": {"app": None, "tier": "front"}}, None):
            said = refusal(
                lambda changed=changed: served.kube.patch(path, {"spec": {"selector": changed}})  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            )
            assert "selector cannot be changed" in said


def test_a_status_is_stored_as_it_was_built(served: Lab) -> None:
    """What the schema did not know would be dropped, and written anew for ever."""
    said = [condition for condition, *_ in function_status.CASES[:1]]
    with created(served, COMBOFUNCS, function("stored")) as path:
        built = function_status.build({}, said)
        stored = served.kube.patch(f"{path}/status", {"status": built})["status"]
        assert stored == built
        assert not differs(stored, function_status.build(stored, said, now_s=2000.0))
        table = served.kubectl("-n", "default", "get", "cf", "stored").splitlines()
        assert table[0].split() == ["NAME", "TARGET", "PLANNED", "READY", "SHORT", "STATE", "AGE"]
        assert table[1].split()[1:5] == ["20", "25", "3", "0"]
        assert "combofunc.surgekit.dev/stored" in served.kubectl("-n", "default", "get", "all", "-o", "name")
    with created(served, DEPLOYMENTS, deployment("stored")) as path:
        read = deployment_spec.read(served.kube.get(path))
        built = status_of(read, {}, Progress(Counts(4, 3, 2, 1), "1 to go"), 1000.0)
        assert served.kube.patch(f"{path}/status", {"status": built})["status"] == built
        table = served.kubectl("-n", "default", "get", "ipd", "stored").splitlines()
        assert table[0].split() == ["NAME", "WANTED", "READY", "UP-TO-DATE", "RESIZING", "STATE", "AGE"]
        assert table[1].split()[1:6] == ["1", "3", "2", "1", "Rolling"]


def test_another_writer_can_add_a_size(served: Lab, tmp_path: Path) -> None:
    """Sizes are merged by their names in a server-side apply."""
    addition = function("shared")
    addition["spec"] = {"sizes": [functions.SMALL | {"name": "extra"}]}
    file = tmp_path / "addition.json"
    file.write_text(json.dumps(addition))
    with created(served, COMBOFUNCS, function("shared")) as path:
        served.kubectl("-n", "default", "apply", "--server-side", "--field-manager=another", "-f", file)
        names = [size["name"] for size in served.kube.get(path)["spec"]["sizes"]]
        assert sorted(names) == ["extra", "large", "small"]


@pytest.mark.parametrize("example", sorted(file.name for file in EXAMPLES.glob("*.yaml")))
def test_the_examples_are_taken_and_can_be_read(served: Lab, example: str) -> None:
    namespaced = ("-n", "default", "-f", EXAMPLES / example)
    served.kubectl("apply", "--server-side", "--warnings-as-errors", *namespaced)
    try:
        specs = {COMBOFUNCS: combofunc_spec.read, DEPLOYMENTS: deployment_spec.read}
        found = [(read, obj) for path, read in specs.items() for obj in served.kube.list_all(path)[0]]
        assert found
        for read, obj in found:
            assert read(obj)
    finally:
        served.kubectl("delete", *namespaced)
