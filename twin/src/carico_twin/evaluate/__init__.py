"""The evaluation: every scheduler on every scenario, compared with published figures, as tables and verdicts.

- Which runs: `study`; `contenders` (schedulers by name), `ablation`, `plan_file` and `file_mistake` (a user's own).
- Running them: `pool` (processes), `runs` (the results of one run).
- Figures: `tables` (means over seeds), `targets`, `results` (everything as JSON).
- Comparisons: `published` numbers on the cluster of `calibration`, with `shapes` (the statements); `recorded` runs of
  `carico compare`, with `beside`.
"""
