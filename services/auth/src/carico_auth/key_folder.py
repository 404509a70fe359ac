"""Keep a folder of seeds, one file per key: created if missing, and rotated with the previous one valid for a while.

`agent.nk` is the key in use; `agent.previous.nk`, where it is there, is still let in, until it is retired.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator

from carico_core.domain import errors
from carico_core.runtime.bus.security import nkeys

SUFFIX = ".nk"
PREVIOUS = ".previous"


class KeyFolder:
    """Seeds below one folder, readable by their owner alone."""

    def __init__(self, folder: pathlib.Path) -> None:
        """Open or create the folder. Raises `SettingsError` where that fails."""
        self._folder = folder
        with _translated(folder):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def publics(self, name: str, kind: nkeys.Kind) -> list[str]:
        """Return the valid public keys for `name`, the current one first; creates it if missing.

        Raises `SettingsError` for a file that holds no seed of this kind, and where a new one cannot be written.
        """
        path = self.path(name)
        if not path.exists():
            with _translated(self._folder):
                self._write(path, nkeys.generate(kind))
        previous = self._previous(name)
        return [_public(each, kind) for each in (path, previous) if each.exists()]

    def rotate(self, name: str) -> None:
        """Make the current key the previous one; a new one is created on its next use.

        Raises `SettingsError` where there is none, or a previous one has not been retired.
        """
        if not self.path(name).exists():
            known = ", ".join(self.names())
            expected = f"one of {known}" if known else f"no --rotate yet: {self._folder} has no keys to rotate"
            raise errors.SettingsError(f"--rotate: got {name!r}, expected {expected}")
        if self._previous(name).exists():
            raise errors.SettingsError(
                f"--rotate: {name} is being rotated: first `--retire {name}`, once no client uses the previous key"
            )
        with _translated(self._folder):
            self.path(name).rename(self._previous(name))

    def retire(self, name: str) -> None:
        """Invalidate the previous key. Raises `SettingsError` where there is none."""
        if not self._previous(name).exists():
            raise errors.SettingsError(f"--retire: {name} has no previous key: `--rotate {name}` makes one")
        with _translated(self._folder):
            self._previous(name).unlink()

    def path(self, name: str) -> pathlib.Path:
        """Return the file of the current seed."""
        return self._folder / f"{name}{SUFFIX}"

    def names(self) -> list[str]:
        """Return the names of the existing keys."""
        found = (path.name.removesuffix(SUFFIX) for path in self._folder.glob(f"*{SUFFIX}"))
        return sorted(name for name in found if not name.endswith(PREVIOUS))

    def _previous(self, name: str) -> pathlib.Path:
        return self._folder / f"{name}{PREVIOUS}{SUFFIX}"

    @staticmethod
    def _write(path: pathlib.Path, seed: str) -> None:
        # Created with mode 0600: a chmod afterwards would leave a moment in which others can read it.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.write(seed + "\n")


@contextlib.contextmanager
def _translated(folder: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.SettingsError(f"{folder}: got {error.strerror}, expected a folder to write keys to") from error


def _public(path: pathlib.Path, kind: nkeys.Kind) -> str:
    try:
        seed = path.read_text(encoding="ascii").strip()
        found, _ = nkeys.decode_seed(seed)
        if found is not kind:
            raise ValueError(f"the seed of a key of kind {found.name.lower()}")
    except (OSError, ValueError) as error:
        raise errors.SettingsError(f"{path}: got {error}, expected a seed of kind {kind.name.lower()}") from error
    return (nkeys.Sealer(seed) if kind is nkeys.Kind.CURVE else nkeys.Signer(seed)).public
