"""The schedulers of the twin, behind one `port`.

- `carico`: CARICO's own state and cycle. `oracle`: knows every Pod's true cost.
- `slots`: kube-scheduler by requests, and a constant number of Pods. `load_aware`: Trimaran and Koordinator.
"""
