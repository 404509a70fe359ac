"""Reference pages that are written from the code: `python -m carico_cli.reference` in the project's folder."""
