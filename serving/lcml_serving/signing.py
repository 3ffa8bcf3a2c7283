"""Signatures of models, as OpenSSF Model Signing 1.0 writes them with an elliptic curve key (`lcml sign`).

MODEL.sig is a Sigstore bundle, JSON, around an envelope (DSSE): a payload and

    ECDSA(key, SHA-2 of the curve's size, "DSSEv1 " + len(type) + " " + type + " " + len(payload) + " " + payload)

The payload is an in-toto statement, JSON, that lists name and SHA-256 of every file. Checked are bytes that have been
read and are then loaded, so that no file can change in between; the package model-signing reads the files itself.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from lcml_serving.errors import ModelError, SettingsError, short
from lcml_serving.model_files import read_content, signature_path

_BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_STATEMENT = "application/vnd.in-toto+json"
_PREDICATE = "https://model_signing/signature/v1.0"
_HASHES = {"secp256r1": hashes.SHA256, "secp384r1": hashes.SHA384, "secp521r1": hashes.SHA512}
_REMEDY = "take the files as they were, or sign them again with lcml sign"


class Verifier:
    """Holds models against the public key in a PEM file, read once. Raises SettingsError where that is none."""

    def __init__(self, key: Path) -> None:
        self._place = key
        try:
            content = key.read_bytes()
        except OSError as error:
            raise SettingsError(f"--require-signature {key} cannot be read: {error.strerror or error}") from error
        try:
            found = load_pem_public_key(content)
        except (ValueError, UnsupportedAlgorithm):
            found = None
        if not isinstance(found, ec.EllipticCurvePublicKey) or found.curve.name not in _HASHES:
            kind = "a private key" if b"PRIVATE KEY" in content else "something else"
            message = f"expected the public key of an elliptic curve, {', '.join(_HASHES)}, as PEM, found {kind}"
            raise SettingsError(f"--require-signature {key}: {message}")
        self._key, self._hash = found, _HASHES[found.curve.name]()

    def check(self, path: Path, files: Mapping[str, bytes]) -> None:
        """Whether these are the files, content by name, that MODEL.sig says were signed. Raises ModelError."""
        place = signature_path(path)
        if not place.exists():
            raise ModelError(f"{path} is not signed: {place.name} is missing beside it; sign it with lcml sign")
        found = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        signed = self._signed(place)
        for name in sorted(signed.keys() | found.keys()):
            file = path.parent / name
            if name not in found:
                raise ModelError(f"{file} was signed with {path.name}, but is not there; {_REMEDY}")
            if name not in signed:
                raise ModelError(f"{file} is not signed by {place.name}; remove it, or sign again with lcml sign")
            if signed[name] != found[name]:
                raise ModelError(f"{file} is not what was signed: its content has changed; {_REMEDY}")

    def _signed(self, place: Path) -> dict[str, str]:
        """SHA-256 by file, of a signature that is the key's."""
        try:
            bundle = json.loads(read_content(place))
            envelope = bundle["dsseEnvelope"]
            (signature,) = envelope["signatures"]
            kind, payload = envelope["payloadType"], base64.b64decode(envelope["payload"], validate=True)
            if (bundle["mediaType"], kind) != (_BUNDLE, _STATEMENT):
                raise ValueError(f"expected {_BUNDLE} of {_STATEMENT}")
            signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
            self._key.verify(base64.b64decode(signature["sig"], validate=True), signed, ec.ECDSA(self._hash))
            return _digests(json.loads(payload))
        except InvalidSignature:
            raise ModelError(f"{place} was not made with the key of {self._place}, or has changed; {_REMEDY}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            message = f"{place} is no signature of OpenSSF Model Signing 1.0: {short(error)}; sign again with lcml sign"
            raise ModelError(message) from error


def _digests(statement: Any) -> dict[str, str]:
    if statement["predicateType"] != _PREDICATE:
        raise ValueError(f"expected {_PREDICATE}")
    resources = statement["predicate"]["resources"]
    if any(each["algorithm"] != "sha256" for each in resources):
        raise ValueError("expected SHA-256 of every file")
    return {str(each["name"]): each["digest"] for each in resources}
