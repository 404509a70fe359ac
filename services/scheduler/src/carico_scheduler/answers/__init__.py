"""Answers: queries over the bus, JSON in and out; none of them changes anything.

- `queries`: the endpoints. `questions`: reads a query. `known`: what answers are made from.
- `pod`, `node`, `fit`: explains a Pod, explains a node, counts how many more Pods fit.
- `standing`, `room`, `kinds`: parts of these answers.
"""
