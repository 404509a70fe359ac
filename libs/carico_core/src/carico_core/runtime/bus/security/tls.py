"""TLS of the bus: contexts made from files that are replaced while a service runs, and one line for what went wrong."""

import functools
import ssl
from collections.abc import Callable

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses

# X509_V_ERR_...: https://docs.openssl.org/3.0/man3/X509_STORE_CTX_get_error/
_EXPIRED, _NOT_YET = 10, 9
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_OTHER_NAME = (62, 64)


def context_maker(settings: buses.BusSettings) -> Callable[[], ssl.SSLContext] | None:
    """Return what makes the context of each handshake; None where TLS is not asked for. Raises `SettingsError`."""
    asked = settings.tls_ca or settings.tls_cert or any(url.strip().startswith("tls:") for url in _urls(settings))
    if not asked:
        return None
    make = functools.partial(_make, settings)
    try:
        make()
    except (OSError, ValueError) as error:
        files = ", ".join(filter(None, (settings.tls_ca, settings.tls_cert, settings.tls_key)))
        raise errors.SettingsError(
            f"bus: TLS with {files}: {_plain(error)}; expected certificates and a key in PEM"
        ) from error
    return make


def explain(error: Exception, settings: buses.BusSettings) -> str:
    """Return what went wrong in one line; of TLS, with what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _explain_certificate(error, settings)
    if isinstance(error, ssl.SSLError):
        asks = "certificate required" in str(error).lower().replace("_", " ")
        why = "; the server asks for a client certificate: CARICO_BUS_TLS_CERT and _KEY" if asks else ""
        return f"TLS handshake with NATS failed: {_plain(error)}{why}"
    return str(error) or type(error).__name__


def _explain_certificate(error: ssl.SSLCertVerificationError, settings: buses.BusSettings) -> str:
    code, where = error.verify_code, buses.shown(settings.url)
    if code in (_EXPIRED, _NOT_YET):
        when = "has expired" if code == _EXPIRED else "is not valid yet"
        return f"the certificate of NATS at {where} {when}: renew it, or set this machine's clock"
    if code in _OTHER_NAME:
        return f"the certificate of NATS is not for the name in {where}: {error.verify_message}"
    if code in _UNKNOWN_AUTHORITY:
        known = settings.tls_ca or "the system's authorities (CARICO_BUS_TLS_CA names another)"
        return f"the certificate of NATS at {where} is not signed by an authority in {known}: was it changed?"
    return f"the certificate of NATS at {where} is refused: {error.verify_message}"


def _make(settings: buses.BusSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.tls_ca or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if settings.tls_cert:
        context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
    return context


def _urls(settings: buses.BusSettings) -> list[str]:
    return settings.url.split(",")


def _plain(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", "") or error).split())
