"""`carico explain` and `carico capacity`: what the scheduler answers, in words.

- `command`, `capacity`: the commands; `asking` asks scheduler, stream of records and API
- `pod_text`, `node_text`, `fit_text`: the answers as text; `containers`: why a Pod's containers do not run
- `words`: numbers, tables and paragraphs of 80 columns
"""
