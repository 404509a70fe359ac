"""Exit codes of the `carico` command."""

FAILED = 1
USER_ERROR = 2
# 128 + SIGINT, as shells report it.
INTERRUPTED = 130
INTERRUPTED_LINE = "carico: interrupted"
