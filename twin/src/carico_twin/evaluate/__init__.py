"""The evaluation: every scheduler on every scenario, compared with published figures, as tables and verdicts.

- `study`: the runs of an evaluation. `contenders`: the schedulers and their settings. `plan_file`: a user's scenario.
- `runs`: one run, measured. `pool`: runs in several processes.
- `tables`: figures over seeds. `targets`: met or missed. `results`: everything as JSON.
- `comparisons`: with published figures, and with runs on emulated nodes.
- `ablation`: each step of the default estimator, with and without; faults. `file_mistake`: a user's file, checked.
- `trace`: peak predictors on a recorded trace. `sharing`: several schedulers at a time.
"""
