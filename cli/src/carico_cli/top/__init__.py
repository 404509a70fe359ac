"""`carico top`: the screen of live signals.

- `command`: the command; `once`: one picture as text or JSON
- `screen`: the app; `overlays`: one node, the help; `widgets`: lines and the table of nodes
- `columns`, `panels`, `node_words`: the content, as lines of `spans`; `view`: sorting and filter
"""
