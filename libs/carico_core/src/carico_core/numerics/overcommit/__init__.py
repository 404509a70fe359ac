"""The peak of a machine's usage in the near future, predicted from the usage of its series (Pods, tasks, VMs).

- `recent`: what every predictor receives. `baselines`: the predictors of "Take it to the limit" (EuroSys'21).
- `agent`: the node agent's estimator, asked for a peak.
- `margin`: `carico`, whose margin is learnt from outcomes (`features`: what it knows at a moment; `regression`: how it
  learns; `promises`: how much of that to believe).
"""
