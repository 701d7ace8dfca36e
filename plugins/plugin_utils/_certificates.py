# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates on the controller: read them, and make those of the local CA. Times are UTC."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ..module_utils._base.addresses import is_address

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    # ansible-core requires it; only ansible-test imports plugins without.
    pass

_DAY_S = 86400.0
# Clocks of clients and hosts may be behind.
_EARLIER = timedelta(days=1)


def described(certificate: str, now: datetime, key: str | None = None) -> dict[str, Any]:
    """What `_subjects.tls.subject.problems` takes. certificate: PEM, of which the first one counts. key: its PEM, if
    known."""
    try:
        read = x509.load_pem_x509_certificate(certificate.encode())
        found = {
            "names": _names(read),
            "days_left": (_time(read, "not_valid_after") - now).total_seconds() / _DAY_S,
            "days_until": (_time(read, "not_valid_before") - now).total_seconds() / _DAY_S,
        }
    except ValueError:
        return {"why": "it is no certificate in PEM form"}
    if key is None:
        return found
    try:
        own = serialization.load_pem_private_key(key.encode(), None)
    except TypeError:
        return {"why": "its key asks for a passphrase, which nobody could type when the service starts"}
    except ValueError:
        return {"why": "its key is none in PEM form"}
    return found | {"of_key": own.public_key() == read.public_key()}


def _time(certificate: x509.Certificate, name: str) -> datetime:
    """In UTC, which cryptography before 42 leaves unsaid."""
    if hasattr(certificate, f"{name}_utc"):
        found: datetime = getattr(certificate, f"{name}_utc")
        return found
    before: datetime = getattr(certificate, name)
    return before.replace(tzinfo=UTC)


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


def new_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def authority(key: bytes, inventory: str, now: datetime, days: int) -> bytes:
    """The certificate of the local CA: with the same key a later one proves the same certificates."""
    own = _private(key)
    words = [x509.NameAttribute(NameOID.COMMON_NAME, f"gb10.fleet {inventory}"[:64])]
    name = x509.Name(words)
    made = _begun(name, name, own.public_key(), now, now + timedelta(days=days))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_usage(signs_certificates=True), critical=True)
    return made.sign(own, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def issued(by: Pair, names: Sequence[str], now: datetime, days: int) -> Pair:
    """A certificate of the CA for a server that clients reach by these names and addresses."""
    ca, key = x509.load_pem_x509_certificate(by.certificate), ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    ends = min(now + timedelta(days=days), _time(ca, "not_valid_after"))
    made = _begun(subject, ca.subject, key.public_key(), now, ends)
    made = made.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(signs_certificates=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(ca))
    signed = made.add_extension(signer, critical=False).sign(_private(by.key), hashes.SHA256())
    form = serialization.PrivateFormat.PKCS8
    return Pair(
        signed.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()),
    )


def is_issued(certificate: str, by: str) -> bool:
    """Whether the CA of this certificate signed the other; both can be read."""
    try:
        x509.load_pem_x509_certificate(certificate.encode()).verify_directly_issued_by(
            x509.load_pem_x509_certificate(by.encode())
        )
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - _EARLIER).not_valid_after(ends)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    signs = {"key_cert_sign": signs_certificates, "crl_sign": signs_certificates}
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    others = {**signs, **dict.fromkeys([*unused, "decipher_only"], False)}
    return x509.KeyUsage(digital_signature=not signs_certificates, **others)


def _general(name: str) -> x509.GeneralName:
    return x509.IPAddress(ipaddress.ip_address(name)) if is_address(name) else x509.DNSName(name)


def _private(key: bytes) -> ec.EllipticCurvePrivateKey:
    read = serialization.load_pem_private_key(key, None)
    if not isinstance(read, ec.EllipticCurvePrivateKey):
        raise ValueError("the CA's key is none of an elliptic curve, as this collection makes it")
    return read


def _public(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("the CA's key is none of an elliptic curve, as this collection makes it")
    return key
