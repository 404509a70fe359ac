"""NATS' keys (nkeys): Ed25519 pairs that sign, Curve25519 pairs that seal, and their text form.

https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth ; the text is base32 of one
or two prefix bytes, the 32 bytes of the key, and a CRC-16. On PyNaCl, which has wheels everywhere and the box that
curve keys need; nats-py's own choice, the nkeys package, is a layer over it without curve keys, and is built from
source at each installation.
"""

import base64
import binascii
import enum
import pathlib

import nacl.exceptions
import nacl.public
import nacl.signing
import nacl.utils

_SEED = 18 << 3
_KEY_BYTES = 32
# How nats-server marks a sealed message (nkeys' xkeys.go).
_SEALED = b"xkv1"


class Kind(enum.IntEnum):
    """Whose key it is: the prefix byte."""

    ACCOUNT = 0 << 3
    SERVER = 13 << 3
    USER = 20 << 3
    CURVE = 23 << 3


class Signer:
    """A pair that signs."""

    def __init__(self, seed: str) -> None:
        """Raise `ValueError` where `seed` is none."""
        self.kind, raw = decode_seed(seed)
        self._key = nacl.signing.SigningKey(raw)
        self.public = encode(self.kind, bytes(self._key.verify_key))

    def sign(self, message: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        return bytes(self._key.sign(message).signature)


class Sealer:
    """A curve pair, by which server and callout encrypt what they send to each other."""

    def __init__(self, seed: str) -> None:
        """Raise `ValueError` where `seed` is none of a curve key."""
        kind, raw = decode_seed(seed)
        if kind is not Kind.CURVE:
            raise ValueError(f"got a key of kind {kind.name.lower()}, expected a curve key (SX...)")
        self._key = nacl.public.PrivateKey(raw)
        self.public = encode(Kind.CURVE, bytes(self._key.public_key))

    def seal(self, message: bytes, *, to: str) -> bytes:
        """Return what only `to` can open. Raises `ValueError` for a key that is none."""
        return _SEALED + bytes(self._box(to).encrypt(message))

    def open(self, sealed: bytes, *, sender: str) -> bytes:
        """Return what `sender` sealed for us. Raises `ValueError` where it did not, or where it was changed."""
        if not sealed.startswith(_SEALED):
            raise ValueError("not sealed")
        try:
            return bytes(self._box(sender).decrypt(sealed[len(_SEALED) :]))
        except nacl.exceptions.CryptoError as error:
            raise ValueError("cannot be opened: sealed for another key, or changed") from error

    def _box(self, other: str) -> nacl.public.Box:
        return nacl.public.Box(self._key, nacl.public.PublicKey(decode(Kind.CURVE, other)))


def generate(kind: Kind) -> str:
    """Return the seed of a new pair."""
    return encode_seed(kind, nacl.utils.random(_KEY_BYTES))


def read(path: pathlib.Path) -> Signer:
    """Return the pair whose seed is in a file. Raises `OSError`, and `ValueError` where there is none in it."""
    return Signer(path.read_text(encoding="ascii").strip())


def verify(public: str, kind: Kind, message: bytes, signature: bytes) -> bool:
    """Return whether the holder of `public`, a key of this kind, signed `message`."""
    try:
        nacl.signing.VerifyKey(decode(kind, public)).verify(message, signature)
    except (ValueError, nacl.exceptions.BadSignatureError):
        return False
    return True


def encode(kind: Kind, raw: bytes) -> str:
    """Return the text of a public key."""
    return _to_text(bytes([kind]) + raw)


def decode(kind: Kind, text: str) -> bytes:
    """Return the 32 bytes of a public key. Raises `ValueError` where it is none of this kind."""
    raw = _from_text(text)
    if len(raw) != 1 + _KEY_BYTES or raw[0] != kind:
        raise ValueError(f"not a public {kind.name.lower()} key")
    return raw[1:]


def encode_seed(kind: Kind, raw: bytes) -> str:
    """Return the text of a seed: five bits say that it is one, the next eight whose."""
    return _to_text(bytes([_SEED | kind >> 5, (kind & 31) << 3]) + raw)


def decode_seed(text: str) -> tuple[Kind, bytes]:
    """Whose seed it is, and its 32 bytes. Raises `ValueError` (which shows nothing of it) where it is none."""
    raw = _from_text(text)
    if len(raw) != 2 + _KEY_BYTES or raw[0] & 0xF8 != _SEED:
        raise ValueError("not the seed of an nkey")
    return Kind((raw[0] & 7) << 5 | raw[1] >> 3), raw[2:]


def _to_text(raw: bytes) -> str:
    checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    try:
        checked = base64.b32decode(text + "=" * (-len(text) % 8))
    except binascii.Error:
        checked = b""
    if len(checked) < 3 or binascii.crc_hqx(checked[:-2], 0).to_bytes(2, "little") != checked[-2:]:
        raise ValueError("not an nkey")
    return checked[:-2]
