"""The directories of clusters: their locks, their names, and how they are removed."""

import fcntl
import os
import pathlib
import time
from typing import IO

import pytest

from carico_core.domain import errors
from carico_local.cluster import folders

NOBODY = 65_534


def test_a_cluster_runs_while_its_lock_is_held(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, flock = folders.Paths(tmp_path), fcntl.flock

    def twice(file: IO[bytes], operation: int) -> None:
        """Another looks at the same time."""
        with paths.lock.open("rb") as another:
            flock(another, operation)
            flock(file, operation)

    assert not folders.is_running(paths)
    with folders.acquire(paths):
        assert folders.is_running(paths)
        with pytest.raises(errors.SettingsError, match="is running already"), folders.acquire(paths):
            pass
    assert not folders.is_running(paths)
    monkeypatch.setattr(fcntl, "flock", twice)
    assert not folders.is_running(paths)


def test_only_clusters_that_this_user_may_read_are_listed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        folders.Paths(tmp_path / name).plan.touch()
    # As `sudo --preserve-env carico up` leaves it.
    (tmp_path / "theirs").chmod(0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    user = os.geteuid()
    # Root may read everything.
    os.seteuid(user or NOBODY)
    try:
        found = folders.cluster_names(pathlib.Path())
    finally:
        os.seteuid(user)
    assert found == ["ours"]


def test_who_only_looks_at_a_lock_keeps_no_supervisor_from_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = folders.Paths(tmp_path)
    paths.lock.touch()
    with paths.lock.open("rb") as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(looker, fcntl.LOCK_UN))
        with folders.acquire(paths):
            assert folders.is_running(paths)


def test_a_lock_that_was_removed_meanwhile_is_taken_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, flock, removed = folders.Paths(tmp_path), fcntl.flock, list[pathlib.Path]()

    def removing(file: IO[bytes], operation: int) -> None:
        """`carico down` was just about to remove it."""
        if not removed:
            paths.lock.unlink()
            removed.append(paths.lock)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", removing)
    with folders.acquire(paths):
        assert folders.is_running(paths)


def test_an_unknown_name_is_answered_with_the_names_there_are(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SettingsError, match="there is none: start it with `carico up --name a`"):
        folders.find(tmp_path / "absent", "a")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text("{}")
    (tmp_path / "no-cluster").mkdir()
    with pytest.raises(errors.SettingsError, match=r"there are one, two$"):
        folders.find(tmp_path, "three")
    assert folders.find(tmp_path, "two").root == tmp_path / "two"


def test_a_mistyped_cluster_gets_the_nearest_name_suggested(tmp_path: pathlib.Path) -> None:
    for name in ("demo", "shop"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").touch()
    with pytest.raises(errors.SettingsError, match=r"'dmeo': there are demo, shop; did you mean 'demo'\?$"):
        folders.find(tmp_path, "dmeo")
    (tmp_path / "shop" / "plan.json").unlink()
    with pytest.raises(errors.SettingsError, match=r"'other': there is demo$"):
        folders.find(tmp_path, "other")


def test_removal_keeps_the_logs_where_asked_and_nothing_otherwise(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path / "carico" / "x")
    for keep_logs in (True, False):
        (paths.data / "nats").mkdir(parents=True)
        paths.logs.mkdir(exist_ok=True)
        paths.log("api").write_text("said\n")
        paths.plan.write_text("{}")
        folders.remove(paths, keep_logs=keep_logs)
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
        assert left == (["carico", "carico/x", "carico/x/logs", "carico/x/logs/api.log"] if keep_logs else [])


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/carico"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/carico"),
        ({"HOME": "/h"}, "/h/.local/state/carico"),
    ],
)
def test_the_home_of_all_clusters_follows_xdg(environ: dict[str, str], expected: str) -> None:
    assert folders.home(environ) == pathlib.Path(expected)
