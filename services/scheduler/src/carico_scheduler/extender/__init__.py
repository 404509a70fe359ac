"""kube-scheduler's extender protocol: a stock kube-scheduler places by CARICO's capacity and its own plugins."""
