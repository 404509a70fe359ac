"""`carico explain` and `carico capacity`: the scheduler's answers as text.

- `command`, `capacity`: the commands; `asking`: asks scheduler, decision stream and API;
  `job_asking`: asks the API for a job's Pods
- `pod_text`, `node_text`, `job_text`, `fit_text`: the answers as text; `remedies`: what could help, by reason
"""
