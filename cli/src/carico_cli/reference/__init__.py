"""Reference tables written from the code: `python -m carico_cli.reference` (`make reference`).

- `pages`: finds the marked parts of docs/metrics.md and docs/settings.md and writes them
- `metric_catalogue`: every metric; `setting_catalogue`: every setting and every flag
"""
