"""Bytes to domain and back.

- `messages`: the messages of the bus. `schemas`: decoding by schema. `codec`: JSON without one, and sizes. `fields`:
  fields read one by one, and bounds.
- `subjects`, `streams`: names on the bus. `roles`: who may use which; `accounts`: what crosses between
  accounts. `freshness`: order and age of messages. `replicas`: which replicas of a service are alive.
- `kubernetes`: objects of the Kubernetes API. `recording`: files of samples and Pod events. `protobuf`: its encoding.
"""
