"""Bind: from a decision to the API's answer.

- `volume_binding`: binds the Pod's PersistentVolumeClaims first.
- `binder`: sends binds, retries what is safe to retry, and asks the API where an answer was lost.
- `outcomes`: what each outcome changes in the state, the records and the metrics.
"""
