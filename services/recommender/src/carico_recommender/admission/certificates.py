"""The webhook's certificate: files of a Secret, which the kubelet replaces when the Secret changes.

They are checked by a TLS handshake within this process, with the name and the authority that the API server will use:
a Secret that does not fit shows at the start, not as Pods without requests. One that fits, but has expired, does not
stop a start: the webhook then has no clients, and what needs no certificate works.
"""

import contextlib
import pathlib
import ssl

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import connections

# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which Python's ssl has no name for.
_ANY_TIME = 0x200000
# Each side sends twice at most in TLS 1.3, and three times in 1.2.
_TURNS = 4


class Certificate:
    """A server's certificate and key, valid for `name` by the authority in `ca`; paths of PEM files."""

    def __init__(self, *, cert: str, key: str, ca: str, name: str, clock: clocks.Clock) -> None:
        self._clock = clock
        self._cert = cert
        self._key = key
        self._ca = ca
        self._name = name
        # Read again in place, so that a listening server uses a new certificate from the next connection on.
        self.context = connections.server_tls()
        self.authority = b""
        self._expires_s: float | None = None
        self._read: tuple[bytes, ...] = ()

    def read(self) -> bool:
        """Read the files; return whether they have changed. Raises `SettingsError` if they cannot be used.

        An expired certificate is used where there is no other.
        """
        try:
            found = tuple(pathlib.Path(each).read_bytes() for each in (self._cert, self._key, self._ca))
            if found == self._read:
                return False
            # In a context of its own, so that files that do not fit leave the one in use as it is.
            tried = connections.server_tls()
            tried.load_cert_chain(self._cert, self._key)
            expires_s = _checked(tried, authority=found[2].decode(), name=self._name)
            if self._read and expires_s <= self._clock.wall_ns() / 1e9:
                raise ValueError("a certificate that has expired")
            self.context.load_cert_chain(self._cert, self._key)
        except (OSError, ValueError) as error:
            # An SSLError is an OSError.
            raise errors.SettingsError(
                f"--admission-cert {self._cert}, --admission-key {self._key}, --admission-ca {self._ca}: got {error}; "
                f"expected PEM files of a certificate for {self._name}, as `RECOMMENDER=1 deploy/k8s/secrets.sh` prints"
            ) from error
        self._read, self.authority, self._expires_s = found, found[2], expires_s
        return True

    def left_s(self) -> float | None:
        """Return how long it is still valid, negative if it has expired; None before it was read."""
        return None if self._expires_s is None else self._expires_s - self._clock.wall_ns() / 1e9

    @property
    def trouble(self) -> str | None:
        """Why the API server does not trust it, None if nothing is known against it."""
        left_s = self.left_s()
        return "its certificate has expired" if left_s is not None and left_s <= 0.0 else None


def _checked(context: ssl.SSLContext, *, authority: str, name: str) -> float:
    """Return when the certificate expires, in Unix seconds.

    Raises `ssl.SSLError` if a client would refuse it, whatever the time is.
    """
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cadata=authority)
    trusting.verify_flags |= _ANY_TIME
    client = trusting.wrap_bio(to_client, to_server, server_hostname=name)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_TURNS):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    found = client.getpeercert()
    if not found:
        raise ValueError("no certificate")
    return float(ssl.cert_time_to_seconds(str(found["notAfter"])))
