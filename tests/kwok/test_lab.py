"""Labs come up, live side by side and leave nothing behind, however they end."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kwok import parts
from kwok.errors import LabError, ProcessError
from kwok.lab import Lab
from kwok.places import labs_directory
from kwok.processes import Processes
from kwok.waiting import wait_for
from surgekit.cli.lab import app
from surgekit.kube.client import ApiError, Kube

pytestmark = pytest.mark.lab


@pytest.fixture
def own_labs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A state directory of its own: these tests break labs, and a red one must leave none running."""
    monkeypatch.setenv("SURGEKIT_STATE_DIR", str(tmp_path))
    yield labs_directory()
    for name in Lab.names():
        Lab.remove(name)


def test_nodes_are_ready_and_numbered_on(lab: Lab) -> None:
    names = lab.add_nodes(2, cpu="2", memory="4Gi", pods=7, prefix="small")
    more = lab.add_nodes(1, prefix="small")
    try:
        assert [*names, *more] == ["small-0", "small-1", "small-2"]
        node = lab.kube.get("/api/v1/nodes/small-1")
        assert node["status"]["allocatable"] == {"cpu": "2", "memory": "4Gi", "pods": "7"}
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "small-1"
        cidrs = [n["spec"]["podCIDR"] for n in lab.kube.list_all("/api/v1/nodes")[0]]
        assert len(set(cidrs)) == len(cidrs)
    finally:
        for name in [*names, *more]:
            lab.kube.delete(f"/api/v1/nodes/{name}")


def test_the_scheduler_takes_its_configuration(lab: Lab, namespace: str) -> None:
    """Bound by a profile that only this configuration knows; metrics are served."""
    config = {"profiles": [{"schedulerName": "mine"}]}
    process = lab.start_scheduler(config, name="second-scheduler")
    try:
        pod = {
            "metadata": {"name": "p"},
            "spec": {"schedulerName": "mine", "containers": [{"name": "c", "image": "i"}]},
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        lab.kube.create(path, pod)
        lab.wait_for(lambda: "nodeName" in lab.kube.get(f"{path}/p")["spec"], "binding")
        context = ssl._create_unverified_context()  # noqa: S323  # the scheduler's own throw-away certificate
        address = f"https://127.0.0.1:{process.port}/metrics"
        with urllib.request.urlopen(address, context=context) as answer:  # ours
            assert b"scheduler_schedule_attempts_total" in answer.read()
    finally:
        lab.stop_scheduler("second-scheduler")
    assert not process.alive()


def test_a_bad_configuration_is_told(lab: Lab) -> None:
    with pytest.raises(ProcessError, match="unknown field"):
        lab.start_scheduler({"colour": "red"}, name="bad-scheduler")


def test_aggregated_apis_are_told_whom_to_believe(lab: Lab) -> None:
    """The config map every aggregated API reads: who may say in whose name a request comes."""
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    said = lab.kube.get(path)["data"]
    assert json.loads(said["requestheader-allowed-names"]) == ["front-proxy-client"]
    assert said["requestheader-client-ca-file"] != said["client-ca-file"], (
        "or any client could claim any name"
    )


def test_accounts_have_their_own_rights(lab: Lab, namespace: str) -> None:
    """RBAC is on: a fresh account may nothing until it is granted."""
    kube = Kube.connect(lab.account_kubeconfig(namespace, "default"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with pytest.raises(ApiError) as caught:
        kube.list_all(pods)
    assert caught.value.code == 403
    assert f"system:serviceaccount:{namespace}:default" in caught.value.message
    lab.kubectl(
        "create", "rolebinding", "may-look", "--clusterrole=view", f"--serviceaccount={namespace}:default",
        "-n", namespace,
    )  # fmt: skip
    lab.wait_for(lambda: _may(lambda: kube.list_all(pods)), "the grant")


def test_apply_takes_files_and_kustomizations(lab: Lab, namespace: str, tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace}}
    (tmp_path / "c.json").write_text(json.dumps(config))
    assert "serverside-applied" in lab.apply(tmp_path / "c.json")
    (tmp_path / "kustomization.yaml").write_text("resources: [c.json]\nnamePrefix: from-")
    lab.apply(tmp_path)
    assert lab.kube.get(f"/api/v1/namespaces/{namespace}/configmaps/from-c")
    (tmp_path / "bad.yaml").write_text("kind: Nonsense\napiVersion: v1\nmetadata: {name: x}")
    with pytest.raises(LabError, match="Nonsense"):
        lab.apply(tmp_path / "bad.yaml")


@pytest.mark.parametrize("half_way", [True, False], ids=["coming up", "up"])
def test_a_killed_creator_leaves_nothing_running(own_labs: Path, half_way: bool) -> None:
    code = (
        "import sys, time; from kwok.lab import Lab\n"
        "with Lab.temporary('victim') as lab:\n"
        "    lab.start('part', [sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    print('up', flush=True); time.sleep(600)"
    )
    creator = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert creator.stdout is not None
    with creator, creator.stdout:
        if half_way:
            wait_for(lambda: any(own_labs.glob("victim-*/kwok/clusters/lab/pids/etcd.pid")), "etcd starts")
        else:
            assert creator.stdout.readline() == b"up\n"
        (directory,) = own_labs.glob("victim-*")
        assert _running(directory)
        os.kill(creator.pid, signal.SIGKILL)
    wait_for(lambda: not _running(directory) and not directory.exists(), "nothing is left of it")


def test_labs_side_by_side_and_the_command_line(own_labs: Path, lab: Lab) -> None:
    """A lab that outlives the command; beside it the session's, untouched; broken, it still goes down."""
    runner = CliRunner()
    up = runner.invoke(app, ["up", "beside", "--nodes", "2", "--json", "-"], catch_exceptions=False)
    view: dict[str, Any] = json.loads(up.stdout)
    assert (view["state"], view["nodes"]) == ("up", 2)
    started = ("combofunc", "extender", "kube-scheduler", "node-model", "probe")
    assert view["processes"] == dict.fromkeys(started, True)
    beside = Lab.open("beside")
    beside.apply(parts.MANIFESTS / "combofunc" / "examples" / "replicas.yaml")  # as the README says
    beside.kubectl("wait", "combofunc/thumbnails", "--for=condition=Ready", "--timeout=60s")
    assert len(beside.kube.list_all("/api/v1/pods")[0]) == 6
    with pytest.raises(LabError, match="is there already"):
        runner.invoke(app, ["up", "beside"], catch_exceptions=False)
    assert Kube.connect(Path(view["kubeconfig"])).host != lab.kube.host
    directory = own_labs / "beside"
    Processes(directory).kill("kube-scheduler")
    os.kill(int((directory / "kwok/clusters/lab/pids/etcd.pid").read_text()), signal.SIGKILL)
    os.kill(int((directory / "kwok/clusters/lab/pids/kube-apiserver.pid").read_text()), signal.SIGKILL)
    (shown,) = json.loads(runner.invoke(app, ["status", "--json", "-"], catch_exceptions=False).stdout)
    assert shown["state"] == "broken"
    assert "beside" in runner.invoke(app, ["status"], catch_exceptions=False).stdout
    assert runner.invoke(app, ["down", "beside"], catch_exceptions=False).exit_code == 0
    assert not _running(directory)
    assert not directory.exists()
    assert lab.kube.get("/version")


def test_labs_that_come_up_at_the_same_moment(tmp_path: Path) -> None:
    """In state directories of their own, so that nothing but chance keeps their ports apart."""
    code = (
        "from kwok.lab import Lab\n"
        "with Lab.temporary('twin') as lab:\n"
        "    lab.add_nodes(1); print(lab.kube.host)"
    )
    twins = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=dict(os.environ) | {"SURGEKIT_STATE_DIR": str(tmp_path / twin)},
            stdout=subprocess.PIPE, text=True,
        )
        for twin in ("a", "b")
    ]  # fmt: skip
    hosts = {twin.communicate(timeout=120)[0] for twin in twins}
    assert [twin.returncode for twin in twins] == [0, 0]
    assert len(hosts) == 2


@pytest.mark.parametrize("name", ["../etc", "", "A", "x" * 60])
def test_names_that_are_no_names(name: str, own_labs: Path) -> None:
    with pytest.raises(LabError, match="lab name"):
        Lab.remove(name)


def test_opening_what_is_not_there(own_labs: Path) -> None:
    with pytest.raises(LabError, match="there is no lab 'nowhere'"):
        Lab.open("nowhere")


def test_kinds_that_were_applied_are_served_and_can_be_deleted_at_once(lab: Lab, tmp_path: Path) -> None:
    """kube-apiserver takes minutes over a definition that is deleted before it is served."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.surgekit.dev"},
        "spec": {
            "group": "test.surgekit.dev",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    file = tmp_path / "definition.json"
    file.write_text(json.dumps(definition))
    for _ in range(5):
        lab.apply(file)
        assert lab.kube.get("/apis/test.surgekit.dev/v1/things")["items"] == []
        lab.kubectl("delete", "-f", file, "--timeout=30s")


def _may(request: Callable[[], object]) -> bool:
    try:
        request()
    except ApiError as error:
        if error.code == 403:
            return False
        raise
    return True


def _running(directory: Path) -> list[str]:
    """Processes that belong to the lab or name its directory, whoever started them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            about = (entry / "environ").read_bytes() + b"\0" + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(directory).encode() in about and int(entry.name) != os.getpid():
            found.append(entry.name)
    return found
