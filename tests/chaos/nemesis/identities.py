"""Who is who on the bus of a run: the auth callout in two replicas, and tokens that are renewed as a kubelet does.

Tokens are those of a small API (`fake_token_api`), since the embedded one reviews none. It is part of the test, and so
are the files, which are not on the disk that fills: only the callout's own way to the API is cut off.
"""

import asyncio
import contextlib
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_auth import key_folder, server_config
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import nkeys
from carico_core.wire import roles
from carico_local.cluster.services import service as parts
from tests.tools.api import fake_token_api
from tests.tools.sites import security_site

AUTHS = ("auth", "auth-2")
# A kubelet's live for an hour; these are renewed several times in two minutes. The files are written twice as often.
LIFE_S = 30.0


class Identities:
    """The keys of a bus and the tokens of its clients, in files below `folder`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.api = fake_token_api.TokenApi()
        self._keys = key_folder.KeyFolder(folder)
        self._revoked: set[str] = set()

    @property
    def config(self) -> Mapping[str, Any]:
        """The part of the servers' configuration by which they know the callout and the administrator."""
        (issuer,) = self._keys.publics("issuer", nkeys.Kind.ACCOUNT)
        (xkey,) = self._keys.publics("xkey", nkeys.Kind.CURVE)
        return server_config.callout(
            issuer=issuer, auth_keys=self._keys.publics("auth", nkeys.Kind.USER), xkey=xkey,
            owner_keys=self._keys.publics("owner", nkeys.Kind.USER),
        )  # fmt: skip

    def rotate(self) -> None:
        """Replace the key of the callout; the servers are to accept the old one as well."""
        self._keys.rotate("auth")

    def retire(self) -> None:
        """Have the servers accept the new one alone."""
        self._keys.retire("auth")

    def close(self) -> None:
        """Stop the API."""
        self.api.close()

    def token_file(self, name: str) -> pathlib.Path:
        """Return the file with the token of a service."""
        return self._folder / parts.log_name(name)

    def owner(self, url: str) -> buses.BusSettings:
        """Return the settings of the administrator, who needs no callout."""
        return buses.BusSettings(
            url=url, nkey=str(self._folder / "owner.nk"), inbox_prefix=roles.inbox(roles.Role.OWNER)
        )

    def auth(self, *, port: int, bus_url: str, api_port: int) -> tuple[str, ...]:
        """Return the command line of one replica of the callout."""
        kubeconfig = self.api.write_kubeconfig(self._folder / f"{port}.kubeconfig", port=api_port)
        return parts.python(
            "carico_auth", bus_url=bus_url, bus_nkey=str(self._folder / "auth.nk"),
            issuer=str(self._folder / "issuer.nk"), xkey=str(self._folder / "xkey.nk"), kubeconfig=str(kubeconfig),
            remember_s=0.0, http_port=port, log_json=True,
        )  # fmt: skip

    async def renew_forever(self, names: Sequence[str]) -> None:
        """Renew the tokens of these services before they expire, until cancelled."""
        while True:
            for name in names:
                self.renew(name)
            await asyncio.sleep(LIFE_S / 2)

    def renew(self, name: str) -> None:
        """Write a new token, unless the service is to have none that is good."""
        if name not in self._revoked:
            self._write(name, life_s=LIFE_S)

    @contextlib.contextmanager
    def revoked(self, name: str) -> Iterator[None]:
        """Let a service have a token that is refused, until the block ends."""
        self._revoked.add(name)
        self._write(name, life_s=LIFE_S, secret=b"of another cluster")
        try:
            yield
        finally:
            self._revoked.discard(name)
            self.renew(name)

    def _write(self, name: str, *, life_s: float, secret: bytes | None = None) -> None:
        role = roles.Role(name.partition("/")[0].partition("-")[0])
        node = name.partition("/")[2] or None
        token = self.api.token(security_site.ACCOUNTS[role], node=node, life_s=life_s, secret=secret)
        file = self.token_file(name)
        # Replaced in one step, as in a volume.
        new = file.with_suffix(".new")
        new.write_text(token, encoding="ascii")
        new.replace(file)
