"""Clusters: starting, ending and reaching them.

- `which`: the one rule for which cluster a command means
- `lifecycle`: `carico up`, `carico down`; `starting` shows a start
- `status`, `logs`: what runs, and what it wrote
- `addresses`: `carico env`, `carico targets`; `nats_cli`: contexts of the nats CLI, `carico decode`
- `web`: the live page; `bus_config`: keys and rights for NATS
"""
