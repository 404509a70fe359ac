"""`kubectl port-forward` for the length of a block, at a port that is free."""

import contextlib
import re
import subprocess
from collections.abc import Iterator

from tests.e2e.kubernetes import kubelet_site

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@contextlib.contextmanager
def forwarded(site: kubelet_site.Site, service: str, port: int) -> Iterator[int]:
    """The port of this machine that leads to a Service of CARICO's namespace."""
    command = [site.environ["KUBECTL"], "--namespace", kubelet_site.NAMESPACE, "port-forward", f"service/{service}"]
    with subprocess.Popen(
        [*command, f":{port}", "--address", "127.0.0.1"], env=dict(site.environ), text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = _FORWARDING.match(line)
            assert found is not None, line or f"kubectl port-forward ended with {process.wait()}"
            yield int(found[1])
        finally:
            process.kill()
