"""Store certificates in Kubernetes Secrets, in the shape that cert-manager gives them.

A Deployment mounts the same Secret either way: `tls.crt`, `tls.key`, and `ca.crt` to verify its peers. The
CA's key is in a Secret that no pod mounts.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from surgekit.kube.api_path import Resource
from surgekit.kube.client import ApiError, Kube
from surgekit.tls.issue import CertificateError, Change, Leaf, Pem, renew

__all__ = ["ensure_secrets"]

_SECRETS = Resource("v1", "secrets")
_CERT_MANAGER = "cert-manager.io/certificate-name"
# Two concurrent writers (an installation's Job and the CronJob) settle within one retry.
_ATTEMPTS = 4


def ensure_secrets(
    kube: Kube, namespace: str, ca_secret: str, wanted: Sequence[Leaf], now: datetime
) -> tuple[Change, ...]:
    """Keep one Secret per leaf, with the leaf's name, signed by the CA in `ca_secret`.

    A leaf with a namespace of its own is left out where we may not read its Secret: its part is not
    installed. Writes name the version they replace. Of two concurrent runs one starts over, and finds the
    other's CA instead of overwriting it.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _ensure_once(kube, namespace, ca_secret, wanted, now)
        except ApiError as error:
            if error.code != 409 or attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable: the last attempt returns or raises")


def _ensure_once(
    kube: Kube, namespace: str, ca_secret: str, wanted: Sequence[Leaf], now: datetime
) -> tuple[Change, ...]:
    authority = _read(kube, namespace, ca_secret)
    secrets = {leaf: _read(kube, namespace, leaf.name) for leaf in wanted if leaf.namespace is None}
    secrets |= _elsewhere(kube, [leaf for leaf in wanted if leaf.namespace is not None])
    stored = {leaf.name: pem for leaf, of in secrets.items() if (pem := _pem(of, "tls.crt", "tls.key"))}
    renewal = renew(_pem(authority, "ca.crt", "ca.key"), stored, list(secrets), now)
    # The CA first: if the run is interrupted after it, the next run finds the key that its leaves need.
    ca = renewal.ca
    data = {"ca.crt": ca.certificates, "ca.key": ca.keys}
    _write(kube, namespace, ca_secret, authority, kind="Opaque", data=data)
    for leaf, secret in secrets.items():
        pem = renewal.leaves[leaf.name]
        data = {"tls.crt": pem.certificates, "tls.key": pem.keys, "ca.crt": ca.certificates}
        _write(kube, leaf.namespace or namespace, leaf.name, secret, kind="kubernetes.io/tls", data=data)
    return renewal.changes


def _elsewhere(kube: Kube, wanted: Sequence[Leaf]) -> dict[Leaf, dict[str, Any] | None]:
    found = {}
    for leaf in wanted:
        try:
            found[leaf] = _read(kube, leaf.namespace or "", leaf.name)
        except ApiError as error:
            if error.code != 403:
                raise
    return found


def _read(kube: Kube, namespace: str, name: str) -> dict[str, Any] | None:
    try:
        secret = kube.get(_SECRETS.path(namespace, name))
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    if owner := (secret["metadata"].get("annotations") or {}).get(_CERT_MANAGER):
        raise CertificateError(
            f"secret {namespace}/{name} is kept by cert-manager (certificate {owner!r}); "
            "delete one of the two keepers"
        )
    return secret


def _pem(secret: dict[str, Any] | None, certificates: str, keys: str) -> Pem | None:
    data = (secret or {}).get("data") or {}
    try:
        return Pem(b64decode(data[certificates], validate=True), b64decode(data[keys], validate=True))
    except (KeyError, Base64Error):
        return None


def _write(
    kube: Kube, namespace: str, name: str, old: dict[str, Any] | None, *, kind: str, data: dict[str, bytes]
) -> None:
    encoded = {key: b64encode(value).decode() for key, value in data.items()}
    if old is None:
        metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "surgekit-certificates"}}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}
        kube.create(_SECRETS.path(namespace), body)
    elif old.get("data") != encoded:
        kube.replace(_SECRETS.path(namespace, name), old | {"data": encoded})
