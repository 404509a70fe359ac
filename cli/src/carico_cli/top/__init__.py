"""`carico top`: the screen of live signals.

- `command`: the command; `once`: one picture as text or JSON
- `screen`: the app; `overlays`: one node, the help; `pods_screen`: the Pods, and texts about one of them
- `widgets`: lines and a screen of them, tables of nodes and Pods; `view`: sorting and filter
- `words/`: the content, as lines
"""
