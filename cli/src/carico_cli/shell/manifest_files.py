"""Files of manifests that a user names."""

import pathlib
from typing import Any

import orjson
import yaml

from carico_cli.shell import user_files
from carico_core.domain import errors

# More than anyone writes by hand; YAML of this size takes seconds to read.
MAX_BYTES = 3 * 1024 * 1024


def read(file: pathlib.Path, flag: str) -> list[Any]:
    """Return the objects of a file, as JSON types. Raises `SettingsError` that names the flag."""
    content = user_files.read(file, flag, most=MAX_BYTES, expected="a manifest")
    try:
        documents = list(yaml.safe_load_all(content.decode()))
    except UnicodeDecodeError as error:
        raise errors.SettingsError(f"{flag} {file}: got bytes that are not UTF-8, expected a manifest") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: a date that does not exist.
        raise errors.SettingsError(f"{flag} {file}: not valid YAML: {_why(error)}") from None
    return [_as_json(each, f"{flag} {file}, object {number}") for number, each in enumerate(documents, start=1)]


def _as_json(document: object, where: str) -> Any:
    """Return an object of YAML as the API server gets it: with text as keys, and times as text."""
    try:
        return orjson.loads(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))
    except TypeError as error:
        raise errors.SettingsError(f"{where}: cannot be written as JSON: {error}") from None


def _why(error: Exception) -> str:
    """Return what is wrong and where, in one line."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return " ".join(str(error).split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
