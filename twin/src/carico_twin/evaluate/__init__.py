"""The evaluation: every scheduler on every scenario, beside what was published, as tables, pictures and verdicts."""
