from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burst_plane.instance.chain import LayersError, chain_id, child_digest, diff_ids, layers

A, B, C = (f"sha256:{each * 64}" for each in "abc")


def test_chain_ids_are_those_of_the_image_specification() -> None:
    assert chain_id((A,)) == A
    two = "sha256:" + hashlib.sha256(f"{A} {B}".encode()).hexdigest()
    assert chain_id((A, B)) == two
    assert chain_id((A, B, C)) == "sha256:" + hashlib.sha256(f"{two} {C}".encode()).hexdigest()


def index(*machines: str) -> bytes:
    return json.dumps(
        {
            "manifests": [
                {"digest": f"sha256:{n:064d}", "platform": {"os": "linux", "architecture": machine}}
                for n, machine in enumerate(machines)
            ]
        }
    ).encode()


def test_the_manifest_for_this_machine() -> None:
    assert child_digest(index("arm64", "amd64"), "x86_64") == (f"sha256:{1:064d}", False)
    assert child_digest(index("arm64", "amd64"), "aarch64") == (f"sha256:{0:064d}", False)
    with pytest.raises(LayersError, match="not for x86_64"):
        child_digest(index("s390x"), "x86_64")
    assert child_digest(json.dumps({"config": {"digest": A}}).encode(), "x86_64") == (A, True)


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"config": {}}', b'{"config": {"digest": "../x"}}',
     b'{"config": {"digest": "sha256:a/../b"}}', b'{"manifests": [7]}'],
)  # fmt: skip
def test_documents_that_make_no_sense(document: bytes) -> None:
    with pytest.raises(LayersError):
        child_digest(document, "x86_64")
    with pytest.raises(LayersError):
        diff_ids(document)


@given(st.binary(max_size=80))
def test_no_document_raises_anything_else(document: bytes) -> None:
    for read in (lambda: child_digest(document, "x86_64"), lambda: diff_ids(document)):
        try:
            read()
        except LayersError:
            continue


def test_layers_of_a_view() -> None:
    one = "mount -t bind /var/lib/containerd/1/fs / -o rbind,ro"
    assert layers(one) == ("/var/lib/containerd/1/fs",)
    two = "mount -t overlay overlay / -o lowerdir=/s/2/fs:/s/1/fs,index=off"
    assert layers(two) == ("/s/2/fs", "/s/1/fs")
    for wrong in ("", "mount", "mount -t overlay overlay / -o index=off", "mount -t bind relative / -o ro"):
        with pytest.raises(LayersError):
            layers(wrong)
