"""Signatures of documents: they identify who vouches for a text, by whatever way it arrived.

Ed25519 (RFC 8032) over a digest of the content and of the address that the document claims, so that a signature cannot
be reused for another address. Private keys are PKCS #8 files in PEM, as `openssl genpkey -algorithm ed25519` makes
them; public keys stand in the settings as the base64 of their 32 bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.contracts.errors import Conflict, InvalidInput
from sluice.contracts.trust import Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNATURE_SUFFIX = ".sig"
"""`FILE.sig` beside a file holds its signature, as JSON."""
_PUBLIC_KEY_BYTES = 32


def document_digest(content: bytes, source: str | None) -> bytes:
    """Return the signed digest: a SHA-256 over the hashes of the content and of `source`, the claimed URL or path."""
    parts = [hashlib.sha256(part).digest() for part in (content, (source or "").encode())]
    return hashlib.sha256(b"sluice document v1" + b"".join(parts)).digest()


def make_key(path: Path) -> str:
    """Write a new private key, readable by its owner alone, and return its public key for the settings.

    Raises `Conflict` if the file exists already.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    raw = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(raw)
    except FileExistsError as error:
        raise Conflict(f"{path} is there already, and a key is never replaced; name another file") from error
    return _public_key_of(key)


def sign(path: Path, key_id: str, content: bytes, source: str | None) -> tuple[Signature, str]:
    """Return the signature of a document by the private key in a file, and the matching public key.

    Raises `InvalidInput` if the file cannot be read, or holds no Ed25519 key without a password.
    """
    key = _private_key(path)
    value = base64.b64encode(key.sign(document_digest(content, source))).decode()
    return Signature(key_id=key_id, value=value), _public_key_of(key)


def problem_with(
    signature: Signature, content: bytes, source: str | None, keys: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return the problem with a signature and the remedy; None where a configured key signed this document."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = keys.get(signature.key_id)
    if public is None:
        return f"key {signature.key_id!r} is not known here", "add its public key to trust.keys, or send no signature"
    try:
        raw = base64.b64decode(signature.value, validate=True)
        Ed25519PublicKey.from_public_bytes(public_key_bytes(public)).verify(raw, document_digest(content, source))
    except binascii.Error:
        return "its value is not base64", "send what `sluice sign` printed"
    except InvalidSignature:
        remedy = "sign the very bytes that are sent, with the same url or file_path: `sluice sign FILE --source URL`"
        return f"key {signature.key_id!r} did not sign this content under this address", remedy
    return None


def public_key_bytes(public: str) -> bytes:
    """Return the bytes of a public key of the settings. Raises `ValueError` where it is malformed."""
    try:
        raw = base64.b64decode(public, validate=True)
    except binascii.Error as error:
        raise ValueError("is no base64; `sluice sign --new-key` prints a public key") from error
    if len(raw) != _PUBLIC_KEY_BYTES:
        raise ValueError(f"has {len(raw)} bytes, and an Ed25519 public key has {_PUBLIC_KEY_BYTES}")
    return raw


def _private_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    remedy = "`sluice sign --new-key --key PATH` makes one"
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise InvalidInput("key", f"{path} cannot be read: {error.strerror or error}", remedy) from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidInput("key", f"{path} holds no private key without a password", remedy) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput("key", f"{path} holds a key of another kind than Ed25519", remedy)
    return key


def _public_key_of(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()
