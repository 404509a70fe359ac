"""etcd of a real control plane: only its API server is let in, which checks what is written."""

import http.client
import json
import pathlib
import ssl

import pytest

from carico_local.control_plane import commands, identity, standalone


def answer(plane: standalone.Standalone, tls: ssl.SSLContext | None) -> int:
    """Return the status of a write as a page of another site would send it, which browsers send without asking."""
    address = "127.0.0.1", plane.network.ports[commands.ETCD]
    client = http.client.HTTPConnection(*address) if tls is None else http.client.HTTPSConnection(*address, context=tls)
    try:
        headers = {"Origin": "http://another.site", "Content-Type": "text/plain"}
        client.request("POST", "/v3/kv/put", body=json.dumps({"key": "AA==", "value": "AA=="}), headers=headers)
        return client.getresponse().status
    finally:
        client.close()


def showing(certificate: pathlib.Path | None) -> ssl.SSLContext:
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    if certificate is not None:
        found.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return found


def test_nobody_but_the_api_server_may_write_to_the_store(real_control_plane: standalone.Standalone) -> None:
    identities = real_control_plane.identities
    own = identities.store.directory / f"{identity.STORE_CLIENT}.crt"
    assert answer(real_control_plane, showing(own)) == 200
    # Those of the cluster's own authority are clients of the API.
    strangers = (None, identities.directory / "api-kubelet-client.crt", identities.directory / "api.crt")
    for tls in (None, *map(showing, strangers)):
        with pytest.raises((OSError, http.client.HTTPException)):
            answer(real_control_plane, tls)
