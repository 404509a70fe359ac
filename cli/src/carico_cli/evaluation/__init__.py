"""`carico evaluate`.

- `command`: runs simulated clusters; `text`: prints the results
- `page`: the report as HTML; `plots`: its charts; `emulated`: simulated compared with emulated nodes
- `trace`: predictors of peaks on a recorded trace
- `rescheduler`: `--rescheduler`: its runs, printed and as a page; `rasa`: the curve of a problem in a file
- `sharing`: `--sharing`: likewise
"""
