"""`carico top`: the screen of live signals.

- `command`: the command; `once`: one picture as text or JSON
- `screen`: the app; `overlays`: one node, the help; `pods_screen`: the Pods, and texts about one of them
- `widgets`: lines, and tables of nodes and Pods
- `columns`, `panels`, `node_words`, `pod_words`: the content, as lines of `spans`; `view`: sorting and filter
"""
