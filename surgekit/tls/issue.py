"""Decide which certificates are due and create their successors: a CA, and the leaves it signs.

Everything is decided from the certificates themselves. A run can be repeated or interrupted anywhere; the
next one completes it.

A CA is replaced without a gap. kube-scheduler reads an extender's `caFile` once, when it starts
(pkg/scheduler/extender.go, makeTransport), so a leaf signed by a CA that the scheduler has not read would
cut it off. A new CA is therefore published beside the old one first, and signs only after `CA_OVERLAP`. A
scheduler restarted at any time in between never notices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Action", "CertificateError", "Change", "Client", "Leaf", "Pem", "Renewal", "Server", "renew"]

CA_VALIDITY = timedelta(days=3650)
LEAF_VALIDITY = timedelta(days=365)
CA_OVERLAP = timedelta(days=30)
# Node clocks differ a little; a certificate must be valid on all of them at once.
_CLOCK_SKEW = timedelta(minutes=5)
_DNS_NAME = re.compile(
    r"(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
_PEM_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.+?-----END [A-Z ]*PRIVATE KEY-----\n?", re.DOTALL)


class CertificateError(Exception):
    """Certificates cannot be made or stored as asked; the message names the obstacle."""


@dataclass(frozen=True)
class Pem:
    """PEM text: one or more certificates, and their keys in the same order."""

    certificates: bytes
    keys: bytes = field(repr=False)


@dataclass(frozen=True)
class Server:
    """A server certificate to store under `name`, for DNS names and addresses."""

    name: str
    hosts: tuple[str, ...]
    namespace: str | None = None  # of its Secret; None: that of the CA

    def __post_init__(self) -> None:
        if not self.hosts:
            raise CertificateError(f"server certificate {self.name!r} needs at least one host")
        for host in self.hosts:
            _general_name(host)


@dataclass(frozen=True)
class Client:
    """A client certificate to store under `name`; the server logs its `common_name`."""

    name: str
    common_name: str
    namespace: str | None = None  # of its Secret; None: that of the CA


Leaf = Server | Client


class Action(StrEnum):
    KEPT = "kept"
    CREATED = "created"
    RENEWED = "renewed"


@dataclass(frozen=True)
class Change:
    """What was done with one certificate, and why."""

    name: str
    action: Action
    reason: str
    not_after: datetime


@dataclass(frozen=True)
class Renewal:
    """All certificates to store now. Peers have to trust `ca.certificates`."""

    ca: Pem
    leaves: Mapping[str, Pem]
    changes: tuple[Change, ...]


def renew(ca: Pem | None, stored: Mapping[str, Pem], wanted: Sequence[Leaf], now: datetime) -> Renewal:
    """Keep good certificates and replace those that are due. `now` must have a time zone."""
    authorities, changes = _authorities(ca, now)
    signer = _signer(authorities, now)
    leaves: dict[str, Pem] = {}
    for leaf in wanted:
        old = stored.get(leaf.name)
        fault = _leaf_fault(old, leaf, signer, now) if old else "it was not there"
        if old and not fault:
            leaves[leaf.name] = old
            changes.append(Change(leaf.name, Action.KEPT, "", _first(old).certificate.not_valid_after_utc))
        else:
            new = _issue_leaf(leaf, signer, now)
            leaves[leaf.name] = new.pem()
            action = Action.RENEWED if old else Action.CREATED
            changes.append(Change(leaf.name, action, fault, new.certificate.not_valid_after_utc))
    bundle = Pem(
        b"".join(a.pem().certificates for a in authorities), b"".join(a.pem().keys for a in authorities)
    )
    return Renewal(bundle, leaves, tuple(changes))


@dataclass(frozen=True)
class _Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> Pem:
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Pem(self.certificate.public_bytes(Encoding.PEM), key)


def _authorities(stored: Pem | None, now: datetime) -> tuple[list[_Pair], list[Change]]:
    """The CAs to trust, newest first; a new one joins when the newest is due."""
    known, reason = _known_authorities(stored, now)
    if known and not _due(known[0].certificate, now):
        return known, [Change("ca", Action.KEPT, "", known[0].certificate.not_valid_after_utc)]
    new = _issue_ca(now)
    action = Action.RENEWED if stored else Action.CREATED
    return [new, *known], [Change("ca", action, reason, new.certificate.not_valid_after_utc)]


def _known_authorities(stored: Pem | None, now: datetime) -> tuple[list[_Pair], str]:
    """Stored CAs that can still sign, newest first, and the reason if a new one is needed."""
    if stored is None:
        return [], "it was not there"
    try:
        pairs = _pairs(stored)
    except CertificateError as error:
        return [], str(error)
    known = [p for p in pairs if p.certificate.not_valid_after_utc > now]
    known.sort(key=lambda p: p.certificate.not_valid_before_utc, reverse=True)
    if known:
        return (
            known,
            f"under a third of its time is left; the new one signs from {now + CA_OVERLAP:%Y-%m-%d} on",
        )
    return [], "it has expired or lost its key"


def _signer(authorities: Sequence[_Pair], now: datetime) -> _Pair:
    """The newest CA that every peer has had time to read, or the oldest if there is none."""
    published = [a for a in authorities if a.certificate.not_valid_before_utc <= now - CA_OVERLAP]
    return published[0] if published else authorities[-1]


def _due(certificate: x509.Certificate, now: datetime) -> bool:
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now < lifetime / 3


def _leaf_fault(stored: Pem, leaf: Leaf, signer: _Pair, now: datetime) -> str:
    """Why the stored certificate must be replaced; empty if it is good."""
    try:
        certificate = _first(stored).certificate
        certificate.verify_directly_issued_by(signer.certificate)
    except CertificateError as error:
        return str(error)
    except (ValueError, TypeError, InvalidSignature):
        return "it is not signed by the current CA"
    if _due(certificate, now):
        return "under a third of its time is left"
    if certificate.subject != _subject(leaf) or _hosts_of(certificate) != _hosts_of(leaf):
        return "its names are not the ones wanted"
    return ""


def _issue_ca(now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # A unique name for each CA, so that peers that trust two do not confuse them.
    subject = _name(f"surgekit CA {key_id.digest.hex()[:8]}")
    certificate = (
        _builder(subject, subject, key, now, now + CA_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Pair(certificate, key)


def _issue_leaf(leaf: Leaf, signer: _Pair, now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = signer.certificate
    not_after = min(now + LEAF_VALIDITY, issuer.not_valid_after_utc)
    # One purpose each: a stolen server key must not open /prioritize, a client key must not pose as server.
    server = isinstance(leaf, Server)
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        _builder(_subject(leaf), issuer.subject, key, now, not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False
        )
    )
    if isinstance(leaf, Server):
        names = x509.SubjectAlternativeName([_general_name(host) for host in leaf.hosts])
        builder = builder.add_extension(names, critical=False)
    return _Pair(builder.sign(signer.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, not_after: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(leaf: Leaf) -> x509.Name:
    if isinstance(leaf, Client):
        return _name(leaf.common_name)
    # A common name holds 64 characters at most (X.520); clients look at the alternative names alone.
    return _name(leaf.hosts[0][:64])


def _name(common_name: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    except ValueError as error:
        raise CertificateError(f"common name {common_name!r} cannot be used: {error}") from error


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if not _DNS_NAME.fullmatch(host):
        raise CertificateError(f"host {host!r} is neither an address nor a DNS name in lower case")
    return x509.DNSName(host)


def _hosts_of(source: x509.Certificate | Leaf) -> set[x509.GeneralName]:
    if isinstance(source, Server):
        return {_general_name(host) for host in source.hosts}
    if isinstance(source, Client):
        return set()
    try:
        return set(source.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return set()


def _first(stored: Pem) -> _Pair:
    pairs = _pairs(stored)
    if not pairs:
        raise CertificateError("its key does not belong to its certificate")
    return pairs[0]


def _pairs(stored: Pem) -> list[_Pair]:
    """Certificates with their keys. One without the other is left by an interrupted write, and skipped."""
    try:
        certificates = x509.load_pem_x509_certificates(stored.certificates)
        keys = [load_pem_private_key(text, password=None) for text in _PEM_KEY.findall(stored.keys)]
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"it cannot be read ({error})") from error
    return [
        _Pair(certificate, key)
        for certificate in certificates
        for key in keys
        if isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == certificate.public_key()
    ]
