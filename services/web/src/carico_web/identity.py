"""Who the page is on the bus: a reader. The seed stays here; the page brings the server's nonce and gets it signed."""

import base64
import pathlib
import re
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime.bus.security import nkeys, token_expiry

# What nats-server sends in INFO: 11 random bytes (24 with an XKey), base64url.
_NONCE = re.compile(r"[A-Za-z0-9_-]{8,64}")


class BadNonce(errors.CaricoError):
    """What was to be signed is no nonce of a NATS server."""

    def __init__(self) -> None:
        super().__init__("expected the nonce of a NATS server: 8 to 64 letters of base64url")


class Identity(Protocol):
    """One way to be known."""

    def trouble(self) -> str | None:
        """Why it cannot be shown now; None where it can."""
        ...

    def shown(self, nonce: str) -> dict[str, str]:
        """What the page adds to its CONNECT. Raises `BadNonce`."""
        ...


class Anyone:
    """The bus takes the page as what it lets in unnamed."""

    def trouble(self) -> str | None:
        """Nothing is needed."""
        return None

    def shown(self, nonce: str) -> dict[str, str]:
        """Nothing."""
        return {}


class Key:
    """An nkey of role reader, read anew each time: it may be rotated."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def trouble(self) -> str | None:
        """That there is no user's seed in the file."""
        try:
            signer = nkeys.read(self._path)
        except (OSError, ValueError) as error:
            return f"{self._path}: expected a user's seed (SU...): {error}"
        return None if signer.kind is nkeys.Kind.USER else f"{self._path}: got another kind of seed, expected SU..."

    def shown(self, nonce: str) -> dict[str, str]:
        """The public key, and the signature of the nonce."""
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
        """That there is none in the file."""
        return None if token_expiry.read(self._path) else f"{self._path}: no token in it"

    def shown(self, nonce: str) -> dict[str, str]:
        """The token."""
        return {"auth_token": token_expiry.read(self._path)}


def of(*, nkey: str, token_file: str) -> Identity:
    """The identity that the settings name."""
    if nkey:
        return Key(pathlib.Path(nkey))
    return Token(pathlib.Path(token_file)) if token_file else Anyone()
