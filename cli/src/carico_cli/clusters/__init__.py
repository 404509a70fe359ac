"""Clusters: starting, ending and reaching them.

- `which`: the one rule for which cluster a command means
- `lifecycle`: `carico up`, `carico down`; `starting`: shows a cluster's start
- `listing`: `carico list`; `status`, as text `status_text`: `carico status`; `logs`: `carico logs`
- `local_services`: which services of a cluster of this machine answer, for `status` and `doctor`
- `integrations`: `carico env`, `carico use` (a shell), `carico targets` (Prometheus), `carico decode` and contexts (the
  nats CLI)
- `web`: `carico web`, the live page; `bus_config`: `carico bus-config`, keys and rights for NATS
"""
