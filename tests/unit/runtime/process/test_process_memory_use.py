"""What dependencies load and no service uses stays out of a process, and what is used works as ever."""

import importlib.metadata
import pathlib
import ssl
import subprocess
import sys
import threading

import pytest

from carico_core.runtime.process import memory_use

RENDER = (
    "from carico_core.runtime.observe import metrics as metric\n"
    "metrics = metric.Metrics('agent')\n"
    "metrics.counter('drops', 'dropped', ('reason',)).labels('a \"late\" one').inc(2)\n"
    "metrics.gauge('capacity_pods', 'capacity').set(3.5)\n"
    "metrics.histogram('lateness_seconds', 'late', buckets=(0.01, 0.1)).observe(0.05)\n"
    "metrics.reading('age_seconds', 'age', lambda: [(('x',), 1e9)], labels=('of',))\n"
    "print(*(line for line in metrics.render().decode().splitlines() if 'process_' not in line), sep='\\n')\n"
    "import sys; print('http.server' in sys.modules)\n"
)


def said(program: str) -> list[str]:
    """What a fresh interpreter prints."""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return run.stdout.splitlines()


def test_metrics_without_their_library_s_servers_read_the_same() -> None:
    *alone, no_server = said(RENDER)
    *whole, server = said(f"import http.server, urllib.request, wsgiref.simple_server, gzip\n{RENDER}")
    assert (no_server, server) == ("False", "True")
    assert alone == whole and len(alone) > 10


def test_the_bus_says_the_version_of_its_library_that_is_installed() -> None:
    """Also where it is not asked of importlib.metadata, which a client of nats-py does by itself."""
    program = (
        "import sys\nfrom carico_core.runtime.bus import nats_bus\nfrom nats.aio import client\n"
        "print(client.__version__, 'importlib.metadata' in sys.modules)\n"
    )
    assert said(program) == [f"{importlib.metadata.version('nats-py')} False"]


def test_an_agent_does_without_uvloop() -> None:
    program = (
        "import asyncio, sys\nfrom carico_agent import __main__, service\n"
        "from carico_core.runtime.process import tasks\n"
        "tasks.run_service = lambda *_, make_loop, **__: print(make_loop is asyncio.new_event_loop)\n"
        "__main__.main()\nprint('uvloop' in sys.modules)\n"
    )
    assert said(program) == ["True", "False"]


def test_a_version_is_known_where_one_folder_tells_it(tmp_path: pathlib.Path) -> None:
    for name in ("nats_py-2.16.0", "nats_py_more-1.0", "old-1", "old-2"):
        (tmp_path / f"{name}.dist-info").mkdir()
    assert memory_use.installed_version("nats-py", tmp_path / "nats") == "2.16.0"
    assert memory_use.installed_version("old", tmp_path / "old") is None
    assert memory_use.installed_version("none", tmp_path / "none") is None


def test_what_is_left_out_can_be_derived_from_and_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    with memory_use.left_out("wave", "pathlib"):
        import pathlib as loaded
        import wave

        derived = type("Derived", (wave.Wave_read,), {})
    assert loaded is pathlib, "a module that is loaded already is the real one"
    with pytest.raises(ImportError, match=r"wave\.Wave_read is left out of this process"):
        wave.Wave_read("a.wav")
    with pytest.raises(ImportError, match="left out"):
        derived()
    import wave as real

    assert real is not wave and issubclass(real.Error, Exception)


WATCH = """
import asyncio
from carico_core.domain import errors
from carico_core.runtime.kube import access, api_client
from carico_core.runtime.process import clock

async def watch():
    where = access.Access(server="http://127.0.0.1:1", tls=None, credentials=access.FixedCredentials(value=None))
    wanted = api_client.KubeSettings()
    client = api_client.KubeClient(where, wanted=wanted, clock=clock.SystemClock(), user_agent="test")
    try:
        async for _ in client.stream("GET", "/api/v1/pods"):
            pass
    except errors.ApiUnavailable:
        await client.close()

asyncio.run(watch())
"""


@pytest.mark.parametrize("use", [WATCH, "from carico_core.runtime.process import connections"])
def test_aiohttp_reads_no_certificates_of_the_system(use: str) -> None:
    program = (
        "import ssl, sys\nread = []\nssl.SSLContext.set_default_verify_paths = lambda self: read.append(1)\n"
        f"{use}\nprint('aiohttp' in sys.modules, read)\n"
    )
    assert said(program) == ["True []"]


def test_other_threads_read_the_system_s_certificates_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[ssl.SSLContext] = []
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", lambda context: read.append(context))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with memory_use.without_system_certificates():
        context.set_default_verify_paths()
        assert read == []
        other = threading.Thread(target=context.set_default_verify_paths)
        other.start()
        other.join()
    assert read == [context]
    context.set_default_verify_paths()
    assert read == [context, context]


def test_the_last_search_for_garbage_leaves_out_all_that_a_command_has_made() -> None:
    # What is registered last runs first.
    program = (
        "import atexit, gc\nfrom carico_core.runtime.process import memory_use\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 1000))\n"
        "memory_use.skip_last_collection()\nprint(gc.get_freeze_count())\n"
    )
    assert said(program) == ["0", "True"]
