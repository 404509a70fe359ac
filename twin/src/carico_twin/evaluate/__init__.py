"""The evaluation: every scheduler on every scenario, compared with published figures, as tables and verdicts."""
