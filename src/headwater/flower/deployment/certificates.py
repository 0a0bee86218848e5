"""Certificates and keys for a federation: an authority of its own, one server, one key per node.

They are made anew for every fleet and never leave its folder. A fleet on several machines wants
certificates from your own authority; ``docs/runbook.md`` says where they go.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headwater.files import replace

_DAYS = 825  # a fleet may stay up for long, and its certificates are read when its parts start
_SOON = timedelta(days=7)


@dataclass(frozen=True)
class ServerFiles:
    """Where the files of a TLS server are."""

    authority: Path
    certificate: Path
    key: Path


def make_server_files(folder: Path) -> ServerFiles:
    """An authority and a certificate for 127.0.0.1, signed by it; the authority's key is dropped.

    Who has only these files can prove to be the server, but nobody can sign a second one.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = ServerFiles(folder / "ca.crt", folder / "server.pem", folder / "server.key")
    authority_key = ec.generate_private_key(ec.SECP384R1())
    authority = _certificate("Headwater fleet", authority_key, None, authority_key)
    key = ec.generate_private_key(ec.SECP384R1())
    server = _certificate("localhost", key, authority, authority_key)
    _write_private(files.key, _pem(key))
    files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    # The last: as long as it is an old one, all three are made again.
    replace(files.certificate, server.public_bytes(serialization.Encoding.PEM))
    return files


def renew(files: ServerFiles) -> None:
    """Make them anew if they end within a week; only while the fleet is down."""
    ends = x509.load_pem_x509_certificate(files.certificate.read_bytes()).not_valid_after_utc
    if ends < datetime.now(UTC) + _SOON:
        make_server_files(files.certificate.parent)


def make_node_key(path: Path) -> Path:
    """A node's key pair: the private key at ``path``, its public half beside it (``.pub``)."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP384R1())
    openssh = serialization.PrivateFormat.OpenSSH
    private = key.private_bytes(serialization.Encoding.PEM, openssh, serialization.NoEncryption())
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    _write_private(path, private)
    replace(path.with_name(path.name + ".pub"), public + b"\n")  # the last: then the pair is whole
    return path


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """A certificate for ``name``; without an issuer it is an authority that signs itself."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks differ a little
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA384())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write_private(path: Path, content: bytes) -> None:
    """Only the owner may read it, from the first byte on."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
