"""The settings of the extender."""

import dataclasses
import ipaddress
from collections.abc import Mapping
from typing import ClassVar

from carico_core.runtime.process import settings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """Environment CARICO_EXTENDER_..., flags --extender..."""

    enabled: bool = settings.setting(
        False, flag="extender", help="serve kube-scheduler's extender protocol (docs/extender.md)"
    )
    host: str = settings.setting(
        "127.0.0.1",
        help="address to listen on",
        why="for a kube-scheduler in the same Pod; any other needs client certificates",
    )
    port: int = settings.setting(10290, help="port to listen on; 0: a free one", minimum=0, maximum=65535)
    tls_cert: str = settings.setting("", help="path of the server's certificate; empty: plain HTTP")
    tls_key: str = settings.setting("", help="path of the certificate's key")
    tls_client_ca: str = settings.setting(
        "",
        help="path of the CA that signs client certificates",
        why="a client can bind Pods with the scheduler's rights",
    )
    hold_s: float = settings.setting(
        30.0, help="how long room is held for a Pod that passed the filter and has not been bound", unit="s",
        minimum=0.1, maximum=3600, why="longer than kube-scheduler takes; a later bind is checked again",
    )  # fmt: skip
    wait_s: float = settings.setting(
        0.1, help="how long a filter waits for the binds of earlier Pods that hold the room it needs",
        unit="s", minimum=0.0, maximum=4.0, why="a bind follows its filter within milliseconds",
    )  # fmt: skip
    removed: ClassVar[Mapping[str, str]] = {
        "exempt": "CARICO_SCHEDULER_BASELINE_NAMESPACES (--baseline-namespaces) lists namespaces that are exempt"
    }

    def __post_init__(self) -> None:
        if self.enabled and not self.tls_client_ca and not _is_loopback(self.host):
            raise ValueError(
                f"--extender-host: got {self.host!r} without --extender-tls-client-ca: any client could bind "
                "Pods; keep 127.0.0.1, or set --extender-tls-cert, --extender-tls-key and --extender-tls-client-ca"
            )
        if bool(self.tls_cert) != bool(self.tls_key) or (self.tls_client_ca and not self.tls_cert):
            raise ValueError("--extender-tls-cert, --extender-tls-key: expected both; a client CA needs them too")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
