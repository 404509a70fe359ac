"""Control groups of emulated nodes: where they are mounted, how one is made, limited, emptied and removed."""
