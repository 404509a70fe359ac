"""CARICO recommender: gives what the aggregators have learnt to VerticalPodAutoscaler objects.

- `classes`   what is recommended for each class, asked of the aggregators
- `vpa`       the status of VerticalPodAutoscaler objects that name this recommender
- `service`, `settings`, `instruments`   connecting and stopping, configuration, metrics
"""
