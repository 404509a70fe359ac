"""How long a cluster needs after a part of it has failed."""
