"""Reference tables written from the code: `python -m carico_cli.reference` (`make reference`).

- `pages`: finds the marked parts of docs/metrics.md, docs/settings.md and docs/security.md and writes them
- `metric_catalogue`: every metric; `setting_catalogue`: every setting and every flag; `rights_catalogue`: every right
  on the bus
"""
