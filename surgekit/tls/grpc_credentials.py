"""Credentials of a gRPC server that follow their files: no restart, no dropped connection.

Not imported by `surgekit.tls`: only parts that serve gRPC install grpcio.
"""

from __future__ import annotations

from pathlib import Path

import grpc
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from surgekit.tls.issue import CertificateError

__all__ = ["reloading_credentials"]

log = structlog.get_logger(__name__)


def reloading_credentials(directory: Path, *, clients: bool = False) -> grpc.ServerCredentials:
    """Serve tls.crt and tls.key. With `clients`, callers need a certificate of ca.crt.

    gRPC asks for the files at every handshake. Raise CertificateError if they are unusable now; later faults
    are logged, and the previous certificate stays in use.
    """
    served = _read(directory, clients)
    faulty = ""

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal served, faulty
        try:
            files = _read(directory, clients)
        except CertificateError as error:
            if str(error) != faulty:  # one log line for each fault, not for each handshake
                faulty = str(error)
                log.error("certificate not reloaded, the previous one stays in use", error=faulty)
            return None
        faulty = ""
        if files == served:
            return None
        served = files
        log.info("certificate reloaded")
        return _configuration(files)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(served),
        changed,  # type: ignore[arg-type]  # the stubs forget that None means unchanged
        require_client_authentication=clients,
    )


_Files = tuple[bytes, bytes, bytes | None]


def _configuration(files: _Files) -> grpc.ServerCertificateConfiguration:
    key, chain, client_ca = files
    return grpc.ssl_server_certificate_configuration([(key, chain)], client_ca)


def _read(directory: Path, clients: bool) -> _Files:
    """Key, certificates, CA of clients. Raise CertificateError if no handshake could succeed with them."""
    try:
        key, chain = (directory / "tls.key").read_bytes(), (directory / "tls.crt").read_bytes()
        of_key = serialization.load_pem_private_key(key, password=None).public_key()
        of_certificate = x509.load_pem_x509_certificate(chain).public_key()
        client_ca = (directory / "ca.crt").read_bytes() if clients else None
        if client_ca is not None:
            x509.load_pem_x509_certificate(client_ca)
    except (OSError, ValueError, TypeError) as error:  # TypeError: the key is encrypted
        raise CertificateError(f"tls.crt, tls.key, ca.crt in {directory} cannot be used: {error}") from error
    if of_key != of_certificate:
        raise CertificateError(f"tls.crt and tls.key in {directory} cannot be used: they are no pair")
    return key, chain, client_ca
