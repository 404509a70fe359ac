"""The real control plane of Kubernetes on one machine.

commands       the command line of each program
identity       users, kubeconfigs and tokens
certificates   a certificate authority, by openssl
standalone     a control plane by itself: of compose's nodes, tests and benchmarks
"""
