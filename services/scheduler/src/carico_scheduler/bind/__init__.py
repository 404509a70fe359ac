"""Bind: from a decision to the API's answer.

- `volume_binding`: binds the Pod's PersistentVolumeClaims first.
- `binder`: sends binds, and asks the API for the outcome if an answer is missing.
- `outcomes`: what each outcome changes in the state, the records and the metrics.
"""
