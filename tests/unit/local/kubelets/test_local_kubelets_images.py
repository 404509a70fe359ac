"""Images made of this machine's files: what is in them, and that the workloads run in nothing else."""

import hashlib
import json
import os
import pathlib
import subprocess
import tarfile

import pytest

from carico_local.kubelets import image_archive, images


def unpacked(archive: pathlib.Path, folder: pathlib.Path) -> tuple[dict[str, object], pathlib.Path]:
    """The configuration of an archive's only image, and the folder of its files."""
    with tarfile.open(archive) as whole:
        whole.extractall(folder / "whole", filter="data")
    manifest = json.loads((folder / "whole/manifest.json").read_text())[0]
    layer = folder / "whole" / manifest["Layers"][0]
    config = json.loads((folder / "whole" / manifest["Config"]).read_text())
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer.read_bytes()).hexdigest()}"]
    with tarfile.open(layer) as files:
        files.extractall(folder / "root", filter="fully_trusted")
    return {**manifest, **config}, folder / "root"


def test_an_archive_holds_what_the_image_names(tmp_path: pathlib.Path) -> None:
    (tmp_path / "real").write_text("content")
    (tmp_path / "link").symlink_to("real")
    image = image_archive.Image(
        tag="docker.io/x/y:1", files={"/a/b": tmp_path / "link"}, scripts={"/bin/run": "#!/bin/sh\n"},
        links={"/bin/also": "run"}, environ={"PATH": "/bin"}, command=("run",),
    )  # fmt: skip
    image_archive.write(image, tmp_path / "image.tar")
    told, root = unpacked(tmp_path / "image.tar", tmp_path)
    assert told["RepoTags"] == ["docker.io/x/y:1"]
    assert told["config"] == {"Env": ["PATH=/bin"], "Cmd": ["run"]}
    assert (root / "a/b").read_text() == "content"
    assert not (root / "a/b").is_symlink()
    assert os.access(root / "bin/also", os.X_OK)


def test_a_changed_file_is_another_image(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("one")
    image = image_archive.Image(tag="t", files={"/file": tmp_path / "file"})
    before = image.key
    assert image.key == before
    (tmp_path / "file").write_text("other")
    assert image.key != before


def test_the_workloads_run_in_their_image_alone(tmp_path: pathlib.Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("changes its root, which needs root")
    said: list[str] = []
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    kept = tmp_path / "cache/carico/tools"
    kept.mkdir(parents=True)
    for age_s in range(1, 5):
        (kept / f"workload-{age_s}.tar").touch()
        os.utime(kept / f"workload-{age_s}.tar", (1e9 - age_s, 1e9 - age_s))
    archive = images.ensure_workloads(environ, report=said.append)
    assert images.ensure_workloads(environ, report=said.append) == archive
    assert len(said) == 1
    # Of those of before the newest stay: what runs may still use them.
    assert {path.name for path in kept.glob("*.tar")} == {archive.name, "workload-1.tar", "workload-2.tar"}
    told, root = unpacked(archive, tmp_path)
    assert told["RepoTags"] == ["docker.io/carico/workload:0.1.0"]
    config = told["config"]
    assert isinstance(config, dict)
    for workload in ("pi", "train", "server", "stages"):
        done = subprocess.run(
            ["carico-workload", workload, "--seconds", "0.05"], capture_output=True, text=True, check=False,
            env=dict(line.split("=", 1) for line in config["Env"]), preexec_fn=lambda: os.chroot(root),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["workload"] == workload
    # Nothing of ours but what runs in a Pod.
    assert {path.name for path in (root / "carico/carico_local").iterdir()} == {
        "__init__.py",
        "applications",
        "workloads",
    }
