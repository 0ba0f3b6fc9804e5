"""Certificates of the lab's cluster, and kubeconfigs with them: who a node's processes are.

As kubeadm does: the API server's bootstrap roles know these names (system:node:<name>, system:kube-proxy).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kwok.cluster import certificates
from kwok.lab import Lab
from kwok.network import addresses

__all__ = ["Pair", "kubeconfig", "sign"]

_VALIDITY = timedelta(days=30)  # longer than a lab lives
_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


def kubeconfig(lab: Lab, user: str, groups: Sequence[str] = ()) -> str:
    """A kubeconfig that acts as `user`, usable wherever the lab's bridge is reached."""
    pair = sign(lab, user, groups)
    port = urlsplit(yaml.safe_load(lab.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]).port
    cluster = {
        "server": f"https://{addresses.CONTROL_PLANE}:{port}",
        "certificate-authority-data": _base64(ca(lab).read_bytes()),
    }
    identity = {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": user, "user": identity}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": user}}],
        "current-context": "lab",
    }
    return yaml.safe_dump(content)


def ca(lab: Lab) -> Path:
    return certificates(lab.directory) / "ca.crt"


def sign(lab: Lab, name: str, groups: Sequence[str] = (), hosts: Sequence[str | IPv4Address] = ()) -> Pair:
    """A certificate of the cluster's CA: a client's, or the server's at `hosts`."""
    # Not from the CA's own certificate: kwokctl gives it the serial number 0, and cryptography warns of that.
    issuer = x509.load_pem_x509_certificate(ca(lab).with_name("admin.crt").read_bytes()).issuer
    authority_key = load_pem_private_key(ca(lab).with_suffix(".key").read_bytes(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, name)])
    use = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
    )
    if hosts:
        names = [x509.DNSName(h) if isinstance(h, str) else x509.IPAddress(h) for h in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(authority_key, hashes.SHA256())  # type: ignore[arg-type]  # kwokctl's is RSA
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(signed.public_bytes(Encoding.PEM), secret)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
