"""Jobs on a cluster.

- `submit`: a job of Pods; `job_wait`: waits for it, and prints what became of it; `refusals`: why the API refuses them
- `demo`: a cluster, a job and a report; `live_view` draws the job, `demo_page` is the report, `demo_charts`
  its pictures
- `simulated`: what kube-scheduler would have done with a demo's job
- `compare`: the same job under CARICO and under kube-scheduler; `compare_page` is its report
- `compare_applications`: three applications before and after their Pods are moved; `compare_applications_page` is its
  report
"""
