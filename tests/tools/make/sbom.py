"""Write what the images contain, as CycloneDX 1.6: `python -m tests.tools.make.sbom FOLDER`, or `make sbom`.

From the hashed locks, by which the images are built: one file per image with every Python package, the SHA-256 of its
distributions, and which package needs it. Not in it: Python and the system's packages, which come with the base image.
https://cyclonedx.org/docs/1.6/json/
"""

import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging import markers

from carico_core.runtime.bus import port
from tests.tools.docker import images

REQUIREMENTS = pathlib.Path(__file__).parents[3] / "requirements"
# The locks of each image of the Dockerfile, by its target.
IMAGES = {"carico": ("image",), "carico-compose": ("image", "compose", "nats"), "nats": ("nats",)}
# Images run on Linux, for the oldest Python that the locks are made for.
_PLATFORM = {
    "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "implementation_name": "cpython",
    "platform_python_implementation": "CPython", "python_version": "3.11", "python_full_version": "3.11.0",
}  # fmt: skip
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+))?")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of a lock. `needed_by`: the packages for which it is there; empty for what is asked for itself."""

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its identity: https://github.com/package-url/purl-spec/blob/main/types-doc/pypi-definition.md"""
        return f"pkg:pypi/{self.name.lower().replace('_', '-')}@{self.version}"


def main(arguments: Sequence[str]) -> int:
    """Return the exit code."""
    if len(arguments) != 1:
        print("expected one folder, into which the files are written", file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for image, locks in IMAGES.items():
        texts = [(REQUIREMENTS / f"{lock}.txt").read_text(encoding="utf-8") for lock in locks]
        target = folder / f"{image}.cdx.json"
        target.write_text(json.dumps(document(image, texts), indent=2) + "\n", encoding="utf-8")
        print(target)
    return 0


def document(image: str, locks: Sequence[str]) -> Mapping[str, Any]:
    """Return the document of an image; the same for the same locks."""
    packages = {package.purl: package for lock in locks for package in packages_of(lock)}
    by_name = {package.name: package.purl for package in packages.values()}
    needs: dict[str, list[str]] = {ref: [] for ref in (image, *packages)}
    for purl, package in packages.items():
        users = [by_name[name] for name in package.needed_by if name in by_name]
        for user in users or [image]:
            needs[user].append(purl)
    version = images.NATS_VERSION if image == "nats" else port.VERSION
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "container", "bom-ref": image, "name": image, "version": version},
        },
        "components": [_component(package) for _, package in sorted(packages.items())],
        "dependencies": [{"ref": ref, "dependsOn": sorted(found)} for ref, found in sorted(needs.items())],
    }


def packages_of(lock: str) -> Iterator[Package]:
    """Return the packages of a lock that are installed on Linux."""
    for entry in re.split(r"\n(?=\S)", lock):
        pin = _PIN.match(entry)
        if pin is None or not _applies(pin["marker"]):
            continue
        comment = entry.partition("# via")[2].replace("#", " ")
        yield Package(
            name=pin["name"], version=pin["version"], hashes=tuple(sorted(_HASH.findall(entry))),
            needed_by=tuple(word for word in comment.split() if "/" not in word and word != "-r"),
        )  # fmt: skip


def _applies(marker: str | None) -> bool:
    return marker is None or markers.Marker(marker.strip()).evaluate(dict(_PLATFORM))


def _component(package: Package) -> Mapping[str, Any]:
    page = f"https://pypi.org/project/{package.name}/{package.version}/"
    hashes = [{"alg": "SHA-256", "content": content} for content in package.hashes]
    return {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
        "externalReferences": [{"type": "distribution", "url": page, "hashes": hashes}],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
