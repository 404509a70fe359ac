"""Comparison of the twin with published figures, and with runs on emulated nodes.

- `published`: the dissertation's figures. `calibration`: the twin as the published cluster. `shapes`: what these show.
- `recorded`: a comparison on emulated nodes. `emulated`: the same in the twin.
"""
