"""The objects of a cluster, in memory for reading and in SQLite for persistence.

Every write is committed before it is acknowledged or shown to a watch, so that a killed process loses nothing that a
client has seen. WAL with synchronous=NORMAL survives the end of the process (https://sqlite.org/pragma.html). A thread
moves the write-ahead log into the database, because its fsync would block every request.
"""

import contextlib
import dataclasses
import fcntl
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import IO

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_local.api.model import objects, resources

_LOG = logs.get("api.store")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (storage, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO counters VALUES ('revision', 0);
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """One committed write: the object after it (for a removal, the last version) and before it."""

    storage: str
    key: objects.Key
    current: objects.Stored
    previous: objects.Stored | None
    deleted: bool = False


class Store:
    """The objects of a cluster. One per data directory, used from one thread."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.path = directory / "objects.sqlite3"
        try:
            # The objects include Secrets.
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(directory)
        except OSError as error:
            raise _unusable(directory, error) from error
        try:
            self._database = _open(self.path)
        except errors.SettingsError:
            self._lock.close()
            raise
        self._objects: dict[str, dict[objects.Key, objects.Stored]] = {name: {} for name in resources.STORAGES}
        self._listeners: list[Callable[[Change], None]] = []
        self._batch: list[Change] | None = None
        self.revision: int = self._database.execute("SELECT value FROM counters WHERE name='revision'").fetchone()[0]
        for storage, namespace, name, body in self._database.execute("SELECT * FROM objects"):
            self._objects.setdefault(storage, {})[namespace, name] = objects.thaw(body)

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Register a listener, called with each change after its commit, in order."""
        self._listeners.append(listener)

    def get(self, storage: str, key: objects.Key) -> objects.Stored | None:
        """Return the current object, or None."""
        return self._objects[storage].get(key)

    def select(self, storage: str, namespace: str = "") -> list[objects.Stored]:
        """Return the objects of a namespace, or all, ordered by namespace and name."""
        kept = self._objects[storage]
        keys = sorted(kept if not namespace else (key for key in kept if key[0] == namespace))
        return [kept[key] for key in keys]

    def put(self, storage: str, data: objects.Object) -> objects.Stored:
        """Store an object at a new resourceVersion."""
        key = objects.key_of(data)
        stored = objects.freeze(data, self.revision + 1)
        self._write(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)",
            (storage, *key, stored.body),
            Change(storage=storage, key=key, current=stored, previous=self._objects[storage].get(key)),
        )
        return stored

    def remove(self, storage: str, data: objects.Object) -> objects.Stored:
        """Remove an object; return its last version, with the resourceVersion of its removal."""
        key = objects.key_of(data)
        stored = objects.freeze(data, self.revision + 1)
        previous = self._objects[storage][key]
        self._write(
            "DELETE FROM objects WHERE storage=? AND namespace=? AND name=?",
            (storage, *key),
            Change(storage=storage, key=key, current=stored, previous=previous, deleted=True),
        )
        return stored

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Write several changes in one commit; listeners get them afterwards."""
        if self._batch is not None:
            yield
            return
        self._batch = []
        try:
            yield
        finally:
            changes, self._batch = self._batch, None
            self._commit(changes)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database. Blocks on the disk: call it in a thread."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=5.0)) as database:
            database.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Close the store."""
        self._database.close()
        self._lock.close()

    def _write(self, statement: str, values: tuple[object, ...], change: Change) -> None:
        if not self._database.in_transaction:
            self._database.execute("BEGIN IMMEDIATE")
        try:
            self._database.execute(statement, values)
        except sqlite3.Error:
            # A full disk may have ended the transaction already.
            if self._batch is None and self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise
        self.revision += 1
        if change.deleted:
            del self._objects[change.storage][change.key]
        else:
            self._objects[change.storage][change.key] = change.current
        if self._batch is not None:
            self._batch.append(change)
        else:
            self._commit([change])

    def _commit(self, changes: list[Change]) -> None:
        if not changes:
            return
        try:
            self._database.execute("UPDATE counters SET value=? WHERE name='revision'", (self.revision,))
            self._database.execute("COMMIT")
        except sqlite3.Error:
            self._undo(changes)
            raise
        for change in changes:
            for listener in self._listeners:
                listener(change)

    def _undo(self, changes: list[Change]) -> None:
        """Undo changes in memory after a failed commit, such as on a full disk."""
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        for change in reversed(changes):
            kept = self._objects[change.storage]
            if change.previous is None:
                del kept[change.key]
            else:
                kept[change.key] = change.previous
        self.revision -= len(changes)


@contextlib.contextmanager
def unwritable_ignored(what: str) -> Iterator[None]:
    """Log that the store cannot write, as on a full disk, for work of the API's own that is repeated anyway."""
    try:
        yield
    except sqlite3.Error as error:
        _LOG.warning("store_write_failed", what=what, error=str(error))


def _lock(directory: pathlib.Path) -> IO[bytes]:
    """Open and lock the lock file: two processes on one directory would assign the same resourceVersions."""
    file = (directory / "lock").open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise errors.SettingsError(
            f"the data directory {directory} is in use by another API: stop it, or use another directory"
        ) from error
    return file


def _open(path: pathlib.Path) -> sqlite3.Connection:
    database: sqlite3.Connection | None = None
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("PRAGMA wal_autocheckpoint=0")
        database.executescript(_SCHEMA)
    except sqlite3.Error as error:
        if database is not None:
            database.close()
        raise _unusable(path.parent, error) from error
    return database


def _unusable(directory: pathlib.Path, error: Exception) -> errors.SettingsError:
    return errors.SettingsError(
        f"cannot use the data directory {directory} ({error}): choose one that is writable, and empty or written by an "
        "earlier cluster"
    )
