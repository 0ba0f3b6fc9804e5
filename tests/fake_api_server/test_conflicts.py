"""Writers that are too late, or mean another object. On the fake API server and the real one."""

from __future__ import annotations

from tests.fake_api_server.both import SURGEKIT, Api, refusal
from tests.fake_api_server.patches import MERGE, STRATEGIC


def test_writers_that_are_too_late_get_a_conflict(api: Api) -> None:
    old = api.config_map("one")
    path = api.path("configmaps", "one")
    new = api.kube.replace(path, old | {"data": {"a": "2"}})
    assert new["data"] == {"a": "2"}
    conflict = (409, "Conflict")
    assert refusal(lambda: api.kube.replace(path, old)) == conflict
    version = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"z": "1"}}
    assert refusal(lambda: api.kube.patch(path, version)) == conflict
    another = {"metadata": {"name": "one", "uid": "another"}, "data": {"z": "1"}}
    assert refusal(lambda: api.kube.replace(path, another)) == conflict
    own = {"metadata": {"uid": old["metadata"]["uid"]}, "data": {"z": "1"}}
    assert api.kube.patch(path, own)["data"] == {"a": "2", "z": "1"}
    unconditional = {"metadata": {"name": "one"}, "data": {"y": "1"}}
    assert api.kube.replace(path, unconditional)["data"] == {"y": "1"}
    assert refusal(lambda: api.kube.replace(path, {"metadata": {"name": "two"}})) == (400, "BadRequest")


def test_a_uid_in_a_patch_is_a_forbidden_change_and_no_conflict(api: Api) -> None:
    api.pod("one")
    another = {"metadata": {"uid": "another"}}
    for path, body in (
        (api.path("pods", "one"), {"metadata": {"uid": "another", "labels": {"a": "b"}}}),
        (api.path("pods", "one", "status"), another | {"status": {"message": "x"}}),
    ):
        for content_type in (MERGE, STRATEGIC):
            said = refusal(lambda p=path, b=body, c=content_type: api.kube.patch(p, b, c))  # type: ignore[misc]
            assert said == (422, "Invalid")
    api.combofunc("func")
    func = api.path("combofuncs", "func", group=SURGEKIT)
    assert refusal(lambda: api.kube.patch(func, another | {"spec": {"targetConcurrency": 9}}))[0] == 422
    written = api.kube.patch(f"{func}/status", another | {"status": {"selector": "a=b"}})
    assert written["status"] == {"selector": "a=b"}, "the status of a custom resource ignores the uid"
    late = {"metadata": {"resourceVersion": "1"}, "status": {"selector": "c=d"}}
    assert refusal(lambda: api.kube.patch(f"{func}/status", late)) == (409, "Conflict")


def test_a_lease_is_replaced_by_version_only(api: Api) -> None:
    group = "/apis/coordination.k8s.io/v1"
    lease = api.kube.create(api.path("leases", group=group), {"metadata": {"name": "l"}, "spec": {}})
    path = api.path("leases", "l", group=group)
    blind = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    assert refusal(lambda: api.kube.replace(path, blind)) == (422, "Invalid")
    held = api.kube.replace(path, lease | {"spec": {"holderIdentity": "a"}})
    assert held["spec"]["holderIdentity"] == "a"
    assert refusal(lambda: api.kube.replace(path, lease)) == (409, "Conflict")
