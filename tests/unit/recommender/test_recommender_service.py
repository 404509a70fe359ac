"""The service before it runs: what a user can fix is one line."""

import asyncio
import gc
import json
import pathlib
import warnings

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings, tasks
from carico_recommender import service
from carico_recommender import settings as setting


def test_a_missing_certificate_is_one_error_without_warnings(tmp_path: pathlib.Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    named = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **named}))
    argv = [
        "--kubeconfig",
        str(kubeconfig),
        "--leader-namespace",
        "carico",
        "--http-port",
        "0",
        "--admission-port",
        "0",
    ]
    for name in ("cert", "key", "ca"):
        argv += [f"--admission-{name}", str(tmp_path / name)]
    chosen = settings.load(
        setting.RecommenderSettings, prefix=setting.PREFIX, argv=argv, environ={}, program=setting.PROGRAM
    )
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises(errors.SettingsError, match="expected PEM files of a certificate for"):
            asyncio.run(service.serve(chosen, tasks.Stop(), clock=clocks.SystemClock(), environ={}))
        gc.collect()
    assert [str(each.message) for each in found if issubclass(each.category, RuntimeWarning)] == []
