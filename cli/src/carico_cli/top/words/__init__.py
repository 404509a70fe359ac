"""What `carico top` and views like it show, as lines of text: nothing here knows a screen.

- `spans`: styled text of which the lines consist
- `columns`: the table of nodes; `panels`: summary, jobs, decisions and services around it
- `history_words`, `member_words`: the panels of the last minutes and of schedulers that share the work
- `node_words`, `pod_words`: one node; Pods
"""
