"""The evaluation: every scheduler on every scenario, compared with published figures, as tables and verdicts.

- `study`: the runs of an evaluation. `contenders`: the schedulers and their settings. `plan_file`: a user's scenario.
- `runs`: one run, measured. `pool`: runs in several processes.
- `tables`: figures over seeds. `targets`: met or missed. `results`: everything as JSON.
- `published`: the dissertation's figures. `calibration`: the twin as the published cluster. `shapes`: what these show.
- `signals`: figures 4.6 and 4.7, a node's signal before and while its peers work.
- `recorded`: a comparison on emulated nodes. `emulated`: the same in the twin.
- `ablation`: each step of the default estimator, with and without; faults. `file_mistake`: errors in a user's file.
- `trace`: peak predictors on a recorded trace. `sharing`: several schedulers at a time.
"""
