"""Jobs on a cluster.

- `submit`: a job of Pods; `refusals`: why the API refuses them; `job_summary`: what became of it
- `demo`: a cluster, a job and a report; `live_view` draws the job, `demo_page` is the report
- `compare`: the same job under CARICO and under kube-scheduler; `compare_page` is its report
"""
