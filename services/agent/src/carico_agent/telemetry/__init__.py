"""How much of the node is in use: one file per source, read ten times a second.

- `port`: what a source is. `sources` opens those that the settings name; `panel` reads them together.
- `cpu`: the dimension "cpu", from utilisation and pressure; `contention` takes out of the pressure what the Pods' own
  limits explain.
- Sources: `proc`, `cgroups`, `devices`.
"""
