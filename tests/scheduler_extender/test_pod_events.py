"""What is left out of an event changes nothing that is read of it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_model.readers import read_pod
from scheduler_extender.pod_events import decode
from tests.readers import hostile_objects as objects


def read(obj: Any) -> Any:
    """What a table learns of the pod: its identity, and what its reader says or that it refuses."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    identity = [known.get(key) for key in ("uid", "namespace", "name", "resourceVersion")]
    try:
        return identity, read_pod(obj)
    except Exception as error:
        return identity, type(error)


@given(st.data())
def test_a_pod_is_read_as_if_nothing_was_left_out(data: st.DataObject) -> None:
    """However spoilt it is."""
    pod = objects.pod() if data.draw(st.booleans()) else data.draw(objects.spoilt(objects.pod()))
    line = orjson.dumps({"type": "MODIFIED", "object": pod})
    event = decode(line)
    assert event["type"] == "MODIFIED"
    assert read(event["object"]) == read(orjson.loads(line)["object"])


def test_managed_fields_are_left_out() -> None:
    pod = objects.pod()
    pod["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
    event = decode(orjson.dumps({"type": "ADDED", "object": pod}))
    assert "managedFields" not in event["object"]["metadata"]
    assert event["object"]["metadata"]["uid"] == pod["metadata"]["uid"]


def test_an_error_keeps_its_reason() -> None:
    status = {"kind": "Status", "metadata": {}, "status": "Failure", "reason": "Expired", "code": 410}
    assert decode(orjson.dumps({"type": "ERROR", "object": status}))["object"] == status


@pytest.mark.parametrize("line", [b"not json", b"", b"\xff", b"[" * 100_000])
def test_what_is_no_event_is_refused_as_orjson_refuses_it(line: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        decode(line)
