"""The status of VerticalPodAutoscaler objects (autoscaling.k8s.io/v1) that name this recommender.

- `objects`   an object of the API as a record, and the class that it means; pure
- `advice`    what is recommended for an object, and its conditions; pure
- `status`    whether that differs enough from what is there, and what to write; pure
- `keeper`    follows the objects, and writes; one replica of several does
"""
