"""Kubeconfig files: the access that one describes.

Plain ones (token, token file, client certificate, basic auth) are read here. The `kubernetes` package takes
30 MB and half a second to import, so it is imported only for a user with an exec plugin or an auth provider; and yaml
(4 % of the imports of a contained node) only for a kubeconfig that is not JSON.
"""

import base64
import binascii
import contextlib
import pathlib
import ssl
import tempfile
import urllib.parse
from collections.abc import Mapping
from typing import Any

import orjson

from carico_core.domain import errors
from carico_core.runtime.kube import access as accesses
from carico_core.runtime.process import clock as clocks

# One of a thousand clusters with their certificates is smaller.
_MAX_BYTES = 16 * 1024 * 1024


def read(path: pathlib.Path, *, context: str, clock: clocks.Clock) -> accesses.Access:
    """Return the access that a kubeconfig file describes; an empty `context` means its current one."""
    document = _document(path)
    name = context or document.get("current-context") or ""
    if not name:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: no context: set current-context, or name one of {_names(document, 'contexts')}"
        )
    chosen = _entry(path, document, "contexts", "context", name)
    cluster = _entry(path, document, "clusters", "cluster", str(chosen.get("cluster", "")))
    user = _entry(path, document, "users", "user", str(chosen["user"])) if chosen.get("user") else {}
    server = str(cluster.get("server", "")).rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise errors.KubeconfigError(f"kubeconfig {path}: cluster of context {name!r} has no http(s) server URL")
    if "exec" in user or "auth-provider" in user:
        return _from_plugin(path, document, name=name, cluster=cluster, server=server)
    tls = _file_tls(path, cluster=cluster, user=user) if server.startswith("https") else None
    server, in_url = _split_user(server)
    credentials = _file_credentials(path, {**in_url, **user}, clock=clock)
    return _access(server, tls=tls, cluster=cluster, credentials=credentials)


def namespace_of(path: pathlib.Path, *, context: str) -> str | None:
    """Return the namespace of a context, empty for the current one; None if the file states none."""
    try:
        document = _document(path)
        name = context or str(document.get("current-context") or "")
        found = _entry(path, document, "contexts", "context", name).get("namespace")
    except errors.KubeconfigError:
        return None
    return str(found) if found else None


def _access(
    server: str, *, tls: ssl.SSLContext | None, cluster: Mapping[str, Any], credentials: accesses.Credentials
) -> accesses.Access:
    return accesses.Access(
        server=server,
        tls=tls,
        credentials=credentials,
        server_hostname=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
    )


def _document(path: pathlib.Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            # Read with a limit: a device has no end.
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise errors.KubeconfigError(f"kubeconfig {path} is not a kubeconfig: got more than {_MAX_BYTES >> 20} MiB")
        document = _parsed(content.decode())
    except FileNotFoundError as error:
        raise errors.KubeconfigError(
            f"kubeconfig {path} does not exist: start a cluster, or set KUBECONFIG or --kubeconfig to yours"
        ) from error
    except OSError as error:
        raise errors.KubeconfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise errors.KubeconfigError(f"kubeconfig {path} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise errors.KubeconfigError(
            f"kubeconfig {path} is not a kubeconfig: expected a mapping with clusters, contexts and users"
        )
    return document


def _parsed(text: str) -> Any:
    """Return the document of a YAML text. Raises `ValueError`."""
    # JSON is YAML too.
    with contextlib.suppress(orjson.JSONDecodeError):
        return orjson.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(errors.one_line(error)) from error


def _entry(path: pathlib.Path, document: Mapping[str, Any], section: str, key: str, name: str) -> dict[str, Any]:
    for item in _items(document, section):
        if item.get("name") == name:
            value = item.get(key) or {}
            if isinstance(value, dict):
                return value
    raise errors.KubeconfigError(f"kubeconfig {path}: no {key} {name!r}; it has {_names(document, section)}")


def _items(document: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    items = document.get(section)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _names(document: Mapping[str, Any], section: str) -> str:
    return ", ".join(str(item.get("name")) for item in _items(document, section)) or f"no {section}"


def _file_credentials(path: pathlib.Path, user: Mapping[str, Any], *, clock: clocks.Clock) -> accesses.Credentials:
    if user.get("token"):
        return accesses.FixedCredentials(value=f"Bearer {user['token']}")
    if user.get("tokenFile"):
        return accesses.FileCredentials(path.parent / str(user["tokenFile"]), clock=clock)
    if "username" in user and "password" in user:
        pair = base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
        return accesses.FixedCredentials(value=f"Basic {pair}")
    return accesses.FixedCredentials()


def _split_user(server: str) -> tuple[str, dict[str, str]]:
    """Split `http://name:password@host` into the URL and the user, which kubectl sends too.

    It is the only credential that kubectl sends over plain HTTP (there, client-go's clientcmd drops those of `users`).
    """
    parts = urllib.parse.urlsplit(server)
    if parts.username is None or parts.password is None:
        return server, {}
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    name, password = (urllib.parse.unquote(each) for each in (parts.username, parts.password))
    return bare, {"username": name, "password": password}


def _file_tls(path: pathlib.Path, *, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _pem(path, cluster, "certificate-authority")
    verify = not cluster.get("insecure-skip-tls-verify", False)
    tls = accesses.tls_context(f"kubeconfig {path}", cafile=None, cadata=authority, verify=verify)
    certificate, key = _pem(path, user, "client-certificate"), _pem(path, user, "client-key")
    if certificate is not None and key is not None:
        _load_pair(path, tls, certificate, key)
    return tls


def _pem(path: pathlib.Path, section: Mapping[str, Any], key: str) -> str | None:
    """Return the PEM text of `<key>-data` (base64), or of the file that `<key>` names, relative to the kubeconfig."""
    try:
        if section.get(f"{key}-data"):
            return base64.b64decode(str(section[f"{key}-data"]), validate=True).decode()
        if section.get(key):
            return (path.parent / str(section[key])).read_text()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise errors.KubeconfigError(f"kubeconfig {path}: {key}-data is not base64 of a PEM text") from error
    except OSError as error:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: {key} {section[key]} cannot be read: {error.strerror}"
        ) from error
    return None


def _load_pair(path: pathlib.Path, tls: ssl.SSLContext, certificate: str, key: str) -> None:
    # OpenSSL reads pairs from files only; this one is readable by us only, and deleted at once.
    with tempfile.NamedTemporaryFile("w", prefix="carico-", suffix=".pem") as pair:
        pair.write(f"{certificate}\n{key}\n")
        pair.flush()
        try:
            tls.load_cert_chain(pair.name)
        except (OSError, ValueError) as error:
            raise errors.KubeconfigError(
                f"kubeconfig {path}: client certificate and key cannot be used: {errors.one_line(error)}"
            ) from error


def _from_plugin(
    path: pathlib.Path, document: dict[str, Any], *, name: str, cluster: Mapping[str, Any], server: str
) -> accesses.Access:
    try:
        import kubernetes.client
        import kubernetes.config
        import kubernetes.config.kube_config
    except ModuleNotFoundError as error:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: context {name!r} has a plugin, which needs the `kubernetes` package and the plugin's "
            "own program: `pip install kubernetes` next to CARICO, or use a context with a token or a certificate"
        ) from error

    # The package has no type information.
    make_loader: Any = kubernetes.config.kube_config.KubeConfigLoader
    configuration = kubernetes.client.Configuration()
    try:
        loader = make_loader(document, active_context=name, config_base_path=str(path.parent))
        loader.load_and_set(configuration)
    except (kubernetes.config.ConfigException, KeyError, TypeError, OSError) as error:
        raise errors.KubeconfigError(f"kubeconfig {path}: {errors.one_line(error)}") from error
    if not configuration.api_key and not configuration.cert_file:
        raise errors.KubeconfigError(
            f"kubeconfig {path}: the plugin of context {name!r} returned no token and no certificate: run it by hand"
        )
    tls = None
    if server.startswith("https"):
        verify = not cluster.get("insecure-skip-tls-verify", False)
        tls = accesses.tls_context(f"kubeconfig {path}", cafile=configuration.ssl_ca_cert, cadata=None, verify=verify)
        if configuration.cert_file:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    return _access(server, tls=tls, cluster=cluster, credentials=accesses.PluginCredentials(loader, configuration))
