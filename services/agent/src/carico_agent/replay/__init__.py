"""Replay: a recorded run, through any estimator, with how well it fitted. Pure but for `reading.read`."""
