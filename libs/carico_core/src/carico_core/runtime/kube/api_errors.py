"""Failures of requests to the Kubernetes API, translated into our errors."""

import contextlib
import sys

import orjson

from carico_core.domain import errors
from carico_core.runtime.kube import http_answer

ERROR_OF_STATUS: dict[int, type[errors.ApiError]] = {
    400: errors.Invalid,
    401: errors.Forbidden,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.Gone,
    422: errors.Invalid,
}


def to_error(status: int, payload: bytes, request: str) -> errors.ApiError | errors.ApiUnavailable:
    """Return the error of an answer that is not 2xx: 408, 429 and 5xx are temporary, all else is a refusal."""
    reason, message = "", ""
    with contextlib.suppress(orjson.JSONDecodeError):
        document = orjson.loads(payload)
        if isinstance(document, dict):
            reason, message = str(document.get("reason") or ""), str(document.get("message") or "")
    # In one line: it is a part of lines of commands and logs.
    message = " ".join((message or payload[:200].decode(errors="replace")).split())
    if status in (408, 429) or status >= 500:
        temporary = errors.ApiBusy if status == 429 else errors.ApiUnavailable
        return temporary(f"{request}: {status} {reason}: {message}")
    known = ERROR_OF_STATUS.get(status, errors.ApiError)
    return known(status=status, reason=reason, message=message, request=request)


class Translated:
    """Raises every error of a connection as `ApiUnavailable`. A class, since each request enters one."""

    def __init__(self, request: str, server: str) -> None:
        self._request = request
        self._server = server

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Leave the block."""
        if error is None:
            return
        if isinstance(error, TimeoutError):
            raise errors.ApiSilent(f"{self._request}: no answer in time from {self._server}") from error
        if isinstance(error, http_answer.TooLong):
            raise errors.ApiUnavailable(f"{self._request}: {error}") from error
        if isinstance(error, http_failures()):
            why = _reason(error)
            raise errors.ApiUnavailable(f"{self._request}: {self._server} cannot be reached: {why}") from error


def http_failures() -> tuple[type[Exception], ...]:
    """Return the errors of a connection; aiohttp's only if it has been used, since importing it takes .15 s of CPU."""
    aiohttp = sys.modules.get("aiohttp")
    return (OSError,) if aiohttp is None else (aiohttp.ClientError, OSError)


def _reason(error: Exception) -> str:
    """Return the reason in one line, without the server, which asyncio and aiohttp repeat in different ways."""
    # aiohttp wraps what the system reports.
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ConnectionRefusedError):
        return "connection refused"
    return errors.one_line(error)
