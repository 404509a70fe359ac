"""`carico evaluate`: `command` runs the twin, `text` prints its figures."""
