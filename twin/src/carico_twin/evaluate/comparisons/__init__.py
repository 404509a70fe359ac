"""Comparison of the twin with published figures, and with runs on emulated nodes.

- `published`: the dissertation's figures. `calibration`: the twin as the published cluster. `shapes`: what these show.
- `signals`: figures 4.6 and 4.7, a node's signal before and while its peers work.
- `recorded`: a comparison on emulated nodes. `emulated`: the same in the twin.
"""
