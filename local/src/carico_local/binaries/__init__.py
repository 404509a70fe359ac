"""Command-line tools that Python's registry does not ship: found on this machine, else built from pinned modules."""
