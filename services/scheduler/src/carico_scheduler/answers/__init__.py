"""Answers: queries over the bus, JSON in and out; none of them changes anything.

- `queries`: the endpoints. `questions`: parses a query. `known`: what answers are made from.
- `pod`, `node`, `fit`: explain a Pod, explain a node, count how many more Pods fit. `waiting`: the Pods that wait.
- `history`: the last quarter of an hour of each node.
- `standing`, `room`, `kinds`: parts of these answers.
"""
