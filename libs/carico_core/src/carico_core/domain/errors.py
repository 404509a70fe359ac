"""The tree of errors that CARICO raises on purpose.

    CaricoError                what failed, what was got, what was expected, what to do
    +-- SettingsError          a setting that cannot be used                       (exit code 2)
    +-- BadName                a name that is not valid in Kubernetes
    +-- MessageError           a message that a reader drops; carries a Drop reason and the path of the bad field
    +-- BusError               the bus refused or could not be used
    |   +-- BusUnavailable     not reachable now; retrying may help
    |   |   +-- BusRefused     the server answers, and does not let us in
    |   +-- BusTooOld          the server is older than what CARICO needs         (exit code 2)
    |   +-- StreamMismatch     a stream exists with another configuration         (exit code 2)
    +-- ApiError               the Kubernetes API answered with a Status
    |   +-- NotFound 404, Conflict 409, Gone 410, Forbidden 401/403, Invalid 400/422
    +-- ApiUnavailable         the Kubernetes API could not be reached, or answered 429/5xx
    |   +-- ApiSilent          it did not answer in time
    |   +-- ApiBusy            429: it asks to try again later; so it refuses what a disruption budget forbids
    +-- KubeconfigError        a kubeconfig that cannot be used                    (exit code 2)
    +-- RecordingError         a recording or log that cannot be replayed          (exit code 2)
    +-- EnvironmentUnfit       this machine lacks something that is required       (exit code 2)

Errors with "exit code 2" are for the user to fix: the program prints one line and stops.
"""

import dataclasses
import enum


class CaricoError(Exception):
    """Root of every error that CARICO raises on purpose."""


class UserError(CaricoError):
    """An error that the user can fix; services print its one line and exit with code 2."""


class SettingsError(UserError):
    """A setting that cannot be used."""


class EnvironmentUnfit(UserError):
    """This machine lacks something that is required."""


class KubeconfigError(UserError):
    """A kubeconfig that cannot be used."""


class RecordingError(UserError):
    """A recording or an agent's log that cannot be read: the file, the place in it, what was found and expected."""

    def __init__(self, file: str, where: str, *, got: str, expected: str) -> None:
        self.file = file
        self.where = where
        self.got = got
        self.expected = expected
        super().__init__(f"{file}, {where}: got {got}, expected {expected}")


class BadName(CaricoError):
    """A name that is not valid in Kubernetes."""

    def __init__(self, kind: str, got: str) -> None:
        self.kind = kind
        self.got = got
        super().__init__(f"{kind} name {got[:80]!r} is not a valid Kubernetes name (lower-case RFC 1123)")


class Drop(enum.StrEnum):
    """Why a reader drops a message; the label of its drop counter."""

    UNDECODABLE = "undecodable"
    OVERSIZED = "oversized"
    WRONG_VERSION = "wrong_version"
    MISSING_FIELD = "missing_field"
    WRONG_TYPE = "wrong_type"
    NON_FINITE = "non_finite"
    OUT_OF_RANGE = "out_of_range"
    WRONG_SHAPE = "wrong_shape"
    FOREIGN_NODE = "foreign_node"
    BAD_NAME = "bad_name"
    REPLAYED = "replayed"
    OLDER_BOOT = "older_boot"
    TOO_OLD = "too_old"
    TOO_MANY = "too_many"
    FLOOD = "flood"


class MessageError(CaricoError):
    """A message that a reader drops."""

    def __init__(self, reason: Drop, path: str, detail: str) -> None:
        self.reason = reason
        self.path = path
        self.detail = detail
        super().__init__(f"{reason.value} at {path or 'message'}: {detail}")


class BusError(CaricoError):
    """The bus refused a request or could not be used."""


class BusUnavailable(BusError):
    """The bus is not reachable now; retrying may help."""


class BusRefused(BusUnavailable):
    """The NATS server answers, and does not let us in, or is not one that is trusted."""


class BusTooOld(BusError, UserError):
    """The NATS server is older than what CARICO needs."""

    def __init__(self, *, got: str, minimum: str, url: str) -> None:
        self.got = got
        self.minimum = minimum
        super().__init__(f"NATS server at {url} is version {got}; CARICO needs {minimum} or later: upgrade the server")


class StreamMismatch(BusError, UserError):
    """A stream or consumer exists with a configuration that is not CARICO's."""

    def __init__(self, *, name: str, differences: tuple[str, ...]) -> None:
        self.name = name
        self.differences = differences
        super().__init__(
            f"stream {name} exists with another configuration ({'; '.join(differences)}): "
            f"delete it (`nats stream rm {name}`; nothing in it is irreplaceable) or rename yours"
        )


class ApiUnavailable(CaricoError):
    """The Kubernetes API could not be reached or is overloaded; retrying may help."""


class ApiSilent(ApiUnavailable):
    """The Kubernetes API did not answer in time, on a connection that is still open."""


class ApiBusy(ApiUnavailable):
    """429: the Kubernetes API asks to try again later; for an eviction, because a PodDisruptionBudget forbids it."""


@dataclasses.dataclass
class ApiError(CaricoError):
    """The Kubernetes API answered a request with an error Status."""

    status: int
    reason: str
    message: str
    request: str

    def __str__(self) -> str:
        return f"{self.request}: {self.status} {self.reason}: {self.message}"


class NotFound(ApiError):
    """404: the object does not exist."""


class Conflict(ApiError):
    """409: exists already, bound already, stale resourceVersion or another UID."""


class Gone(ApiError):
    """410: the resourceVersion is too old; list again."""


class Forbidden(ApiError):
    """401 or 403: not authenticated, or not authorized."""


class Invalid(ApiError):
    """400 or 422: the API does not accept the object."""


def one_line(error: Exception) -> str:
    """Return the message of an error of another package in one line."""
    return " ".join(str(error).split()) or type(error).__name__
