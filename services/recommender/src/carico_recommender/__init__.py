"""CARICO recommender: gives what the aggregators have learnt to VerticalPodAutoscaler objects and to new Pods.

- `classes`   what is recommended for each class, asked of the aggregators
- `vpa`       the status of VerticalPodAutoscaler objects that name this recommender
- `admission` requests for new Pods, as a webhook
- `namespaces` LimitRanges and ResourceQuotas, which bound both
- `service`, `settings`, `instruments`   connecting and stopping, configuration, metrics
"""
