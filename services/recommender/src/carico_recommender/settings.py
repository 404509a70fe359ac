"""The settings of the recommender."""

import dataclasses
from typing import ClassVar

from carico_core.domain import usage
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.leadership import leader_settings
from carico_core.runtime.process import settings

PREFIX = "recommender"
PROGRAM = "carico-recommender"


OFF = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """Flags --admission-...; environment CARICO_RECOMMENDER_ADMISSION_..."""

    of_program: ClassVar[bool] = True
    host: str = settings.setting("127.0.0.1", help="address of the webhook that sets requests of new Pods")
    port: int = settings.setting(OFF, help="its port; 0 a free one, -1 no webhook", minimum=OFF, maximum=65535)
    cert: str = settings.setting("", help="path of its certificate (PEM)")
    key: str = settings.setting("", help="path of the certificate's key (PEM)")
    ca: str = settings.setting("", help="path of the authority that signed it (PEM), which the API server is given")
    name: str = settings.setting(
        "carico-recommender.carico.svc", help="name by which the API server reaches it, which the certificate must have"
    )
    webhook: str = settings.setting(
        "carico-recommender", help="name of the MutatingWebhookConfiguration whose authority is kept up to date"
    )

    resources: str = settings.setting(
        "cpu,memory", help="requests that it sets, with a comma: cpu, memory or both",
        why="requests are what autoscalers, quotas and eviction go by; without cpu CARICO places by usage as before",
    )  # fmt: skip

    def __post_init__(self) -> None:
        self.dimensions()
        lacks = [name for name in ("cert", "key", "ca") if not getattr(self, name)]
        if self.port != OFF and lacks:
            flags = ", ".join(f"--admission-{name}" for name in lacks)
            raise ValueError(f"--admission-port {self.port}: got no {flags}, expected PEM files for TLS")

    def dimensions(self) -> tuple[str, ...]:
        """Return the resources whose requests are set. Raises `ValueError`."""
        found = tuple(part.strip() for part in self.resources.split(","))
        if not set(found) <= set(usage.DIMS):
            raise ValueError(f"--admission-resources: got {self.resources!r}, expected cpu, memory or cpu,memory")
        return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecommenderSettings:
    """Read once in `main`: environment CARICO_RECOMMENDER_..., flags --..."""

    name: str = settings.setting(
        "carico", help="the name by which a VerticalPodAutoscaler chooses this recommender (spec.recommenders)"
    )
    interval_s: float = settings.setting(
        15.0, help="time between two questions to the aggregators", unit="s", minimum=1.0, maximum=60.0,
        why="a new class is recommended within 60 s; an answer with 1,000 classes takes an aggregator 0.1 s; after "
        "120 s an answer is too old to act on",
    )  # fmt: skip
    percentile: float = settings.setting(
        0.95, help="share of the time in which a Pod's CPU is at most its request, before the margin",
        minimum=0.01, maximum=1.0, why="as `carico recommend`",
    )  # fmt: skip
    margin: float = settings.setting(
        0.15, help="what is added to the percentile of CPU (at most half of it to its peak) and to the peak of memory, "
        "as a share", minimum=0.0, maximum=10.0, why="as `carico recommend`",
    )  # fmt: skip
    change: float = settings.setting(
        0.1, help="a status is written again when an amount of a target differs by more than this share; at most the "
        "margin", minimum=0.0, maximum=10.0,
        why="VPA's updater acts from 10 % on; up to the margin, a target that is kept is never below a peak",
    )  # fmt: skip
    writes_per_s: float = settings.setting(
        20.0, help="maximum number of statuses written", unit="1/s", minimum=0.1, maximum=1000.0,
        why="5,000 new objects are served within 5 minutes, at less than a tenth of a core",
    )  # fmt: skip
    admission: AdmissionSettings = dataclasses.field(default_factory=AdmissionSettings)
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)
    kube: kubes.KubeSettings = dataclasses.field(default_factory=kubes.KubeSettings)
    leader: leader_settings.LeaderSettings = dataclasses.field(default_factory=leader_settings.LeaderSettings)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("--name: got none, expected the name in spec.recommenders, such as carico")
        if self.change > self.margin:
            raise ValueError(
                f"--change {self.change:g} and --margin {self.margin:g}: expected a change of at most the margin, so "
                "that a target that is kept is never below a peak"
            )
