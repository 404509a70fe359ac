"""Identify the page on the bus as a reader. The seed stays here: the page sends the server's nonce to be signed."""

import base64
import pathlib
import re
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime.bus.security import nkeys, token_expiry

# What nats-server sends in INFO: 11 random bytes (24 with an XKey), base64url.
_NONCE = re.compile(r"[A-Za-z0-9_-]{8,64}")


class BadNonce(errors.CaricoError):
    """The text to be signed is not a nonce of a NATS server."""

    def __init__(self) -> None:
        super().__init__("expected the nonce of a NATS server: 8 to 64 letters of base64url")


class Identity(Protocol):
    """A way to identify the page."""

    def trouble(self) -> str | None:
        """Return why it is not available now; None if it is."""
        ...

    def shown(self, nonce: str) -> dict[str, str]:
        """Return what the page adds to its CONNECT. Raises `BadNonce`."""
        ...


class Anyone:
    """No identity: the bus accepts the page without a name."""

    def trouble(self) -> str | None:
        """Return None: nothing can be missing."""
        return None

    def shown(self, nonce: str) -> dict[str, str]:
        """Return no fields."""
        return {}


class Key:
    """An nkey of role reader, read again each time: it may be rotated."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def trouble(self) -> str | None:
        """Return an error if the file holds no user's seed."""
        try:
            signer = nkeys.read(self._path)
        except (OSError, ValueError) as error:
            return f"{self._path}: expected a user's seed (SU...): {error}"
        return None if signer.kind is nkeys.Kind.USER else f"{self._path}: got another kind of seed, expected SU..."

    def shown(self, nonce: str) -> dict[str, str]:
        """Return the public key and the signature of the nonce."""
        if _NONCE.fullmatch(nonce) is None:
            raise BadNonce
        signer = nkeys.read(self._path)
        signature = base64.urlsafe_b64encode(signer.sign(nonce.encode("ascii"))).decode().rstrip("=")
        return {"nkey": signer.public, "sig": signature}


class Token:
    """A token of a ServiceAccount that is a reader; the kubelet replaces it in its file."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def trouble(self) -> str | None:
        """Return an error if the file is empty."""
        return None if token_expiry.read(self._path) else f"{self._path}: no token in it"

    def shown(self, nonce: str) -> dict[str, str]:
        """Return the token."""
        return {"auth_token": token_expiry.read(self._path)}


def of(*, nkey: str, token_file: str) -> Identity:
    """Return the identity that the settings name."""
    if nkey:
        return Key(pathlib.Path(nkey))
    return Token(pathlib.Path(token_file)) if token_file else Anyone()
