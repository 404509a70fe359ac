"""`python -m carico_cli.reference [FOLDER]`: writes the reference tables from the code."""

import pathlib
import sys

from carico_cli.reference import pages
from carico_core.domain import errors


def main(argv: list[str]) -> int:
    """Write the tables; return the exit code: 2 if the folder is not the project's."""
    try:
        changed = pages.write(pathlib.Path(argv[0] if argv else "."))
    except errors.SettingsError as error:
        print(f"python -m carico_cli.reference: {error}", file=sys.stderr)
        return 2
    print("written: " + ", ".join(changed) if changed else "nothing has changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
