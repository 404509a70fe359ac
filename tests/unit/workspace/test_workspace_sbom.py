"""`make sbom`: every package of the locks is in it, once, with all of its hashes, and reachable from the image."""

import json
import pathlib
import re

import pytest

from tests.tools.make import sbom

ROOT = pathlib.Path(__file__).parents[3]
LOCK = """\
aiohttp==3.1.0 \\
    --hash=sha256:{0} \\
    --hash=sha256:{1}
    # via -r requirements/image.in
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{0}
    # via aiohttp
yarl==1.2.0 ; python_full_version >= '3.11' \\
    --hash=sha256:{1}
    # via
    #   aiohttp
    #   -r requirements/image.in
""".format("a" * 64, "b" * 64)


def test_a_package_has_its_hashes_and_who_needs_it() -> None:
    first, second = sbom.packages_of(LOCK)
    assert (first.name, first.version, first.hashes, first.needed_by) == ("aiohttp", "3.1.0", ("a" * 64, "b" * 64), ())
    assert (second.purl, second.hashes, second.needed_by) == ("pkg:pypi/yarl@1.2.0", ("b" * 64,), ("aiohttp",))


def test_dependencies_are_as_the_lock_says() -> None:
    found = sbom.document("x", [LOCK])
    assert found["dependencies"] == [
        {"ref": "pkg:pypi/aiohttp@3.1.0", "dependsOn": ["pkg:pypi/yarl@1.2.0"]},
        {"ref": "pkg:pypi/yarl@1.2.0", "dependsOn": []},
        {"ref": "x", "dependsOn": ["pkg:pypi/aiohttp@3.1.0"]},
    ]


@pytest.mark.parametrize("image", sbom.IMAGES)
def test_every_locked_package_is_in_it(image: str, tmp_path: pathlib.Path) -> None:
    assert sbom.main([str(tmp_path)]) == 0
    found = json.loads((tmp_path / f"{image}.cdx.json").read_text())
    locks = [(ROOT / f"requirements/{name}.txt").read_text() for name in sbom.IMAGES[image]]
    pinned = {
        (name, version) for lock in locks for name, version in re.findall(r"^([\w.-]+)(?:\[.*\])?==(\S+)", lock, re.M)
    }
    listed = {(each["name"], each["version"]) for each in found["components"]}
    assert listed <= pinned
    # No image runs on Windows.
    missing = {name for name, _ in pinned} - {name for name, _ in listed}
    assert missing <= {"colorama", "tzdata"}
    assert all(each["externalReferences"][0]["hashes"] for each in found["components"])
    needs = {each["ref"]: each["dependsOn"] for each in found["dependencies"]}
    reached, left = set(), [image]
    while left:
        ref = left.pop()
        if ref not in reached:
            reached.add(ref)
            left += needs[ref]
    assert reached == needs.keys()


def test_a_missing_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert sbom.main([]) == 2
    assert "expected one folder" in capsys.readouterr().err
