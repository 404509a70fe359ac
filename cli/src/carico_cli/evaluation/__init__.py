"""`carico evaluate`.

- `command`: runs the twin; `text` prints its figures
- `page`: the report as HTML; `pictures`: its charts; `emulated`: the twin against emulated nodes
"""
