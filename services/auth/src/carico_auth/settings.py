"""The settings of the auth callout."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from carico_auth import policy
from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.process import settings
from carico_core.wire import roles

PREFIX = "auth"
PROGRAM = "carico-auth"
NO_ISSUER = "none"
_ACCOUNTS = "ServiceAccounts (namespace/name, several with commas) that are "


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """Read once in `main`: environment CARICO_AUTH_..., flags --..."""

    removed: ClassVar[Mapping[str, str]] = {
        "account": "agents and all others have accounts of fixed names (docs/security.md#accounts)",
        "answer_within_s": "a request is refused after 3 s, before the server drops the client",
    }

    issuer: str = settings.setting(
        help="path of the account seed (SA...) that signs the answers; `none`: it answers nothing and only disconnects "
        "clients that flood, for servers with static keys"
    )  # fmt: skip
    xkey: str = settings.setting(
        "", help="path of the curve seed (SX...) that decrypts the server's requests; empty: they are not encrypted",
        why="the requests contain clients' tokens",
    )  # fmt: skip
    audience: str = settings.setting(
        "carico-nats", help="audience that a token must be made for",
        why="a token for another service, or for the API itself, must not open the bus",
    )  # fmt: skip
    agents: str = settings.setting("carico/carico-agent", help=f"{_ACCOUNTS}agents, each of the node its Pod is on")
    aggregators: str = settings.setting("carico/carico-aggregator", help=f"{_ACCOUNTS}aggregators")
    schedulers: str = settings.setting("carico/carico-scheduler", help=f"{_ACCOUNTS}schedulers")
    reschedulers: str = settings.setting("", help=f"{_ACCOUNTS}reschedulers", why="the service is optional")
    recommenders: str = settings.setting("carico/carico-recommender", help=f"{_ACCOUNTS}recommenders")
    readers: str = settings.setting("carico/carico-reader", help=f"{_ACCOUNTS}readers")
    clis: str = settings.setting("carico/carico-cli", help=f"{_ACCOUNTS}users of the nats CLI")
    owners: str = settings.setting("", help=f"{_ACCOUNTS}owners of streams", why="none by default")
    remember_s: float = settings.setting(
        10.0, help="how long a valid token is not reviewed again", unit="s",
        minimum=0.0, maximum=300.0,
        why="a thousand agents may reconnect at once, some of them twice; a revoked token stays valid this much longer",
    )  # fmt: skip
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)
    kube: kubes.KubeSettings = dataclasses.field(default_factory=kubes.KubeSettings)

    def __post_init__(self) -> None:
        if not self.audience:
            raise errors.SettingsError(
                "--audience: got none, expected one: without it every token of the cluster is good"
            )
        self.accounts()

    def accounts(self) -> dict[policy.ServiceAccount, roles.Role]:
        """Return the role of each ServiceAccount. Raises `SettingsError`."""
        found: dict[policy.ServiceAccount, roles.Role] = {}
        for flag, text, role in (
            ("--agents", self.agents, roles.Role.AGENT),
            ("--aggregators", self.aggregators, roles.Role.AGGREGATOR),
            ("--schedulers", self.schedulers, roles.Role.SCHEDULER),
            ("--reschedulers", self.reschedulers, roles.Role.RESCHEDULER),
            ("--recommenders", self.recommenders, roles.Role.RECOMMENDER),
            ("--readers", self.readers, roles.Role.READER),
            ("--clis", self.clis, roles.Role.CLI),
            ("--owners", self.owners, roles.Role.OWNER),
        ):
            for part in filter(None, (part.strip() for part in text.split(","))):
                account = policy.parse_account(part, flag=flag)
                if found.setdefault(account, role) is not role:
                    raise errors.SettingsError(
                        f"{flag}: got {part}, which is {found[account].value} already, expected one role each"
                    )
        return found
