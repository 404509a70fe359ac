"""The schedulers of the twin.

- `port`: what a scheduler is given and asked. `carico`: CARICO's own state and cycle.
- `slots`: kube-scheduler by requests, and constants. `load_aware`: Trimaran and Koordinator. `oracle`.
"""
