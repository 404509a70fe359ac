"""CARICO auth: the auth callout of the bus, by the identities of Kubernetes.

- `app`            one replica: request in, review, answer out
- `reviews`        TokenReview at the Kubernetes API, with a short cache
- `connections`    looks at all connections, and ends those of
- `ended_pods`     Pods that are gone, and of
- `floods`         clients that send far too much
- `policy`         identity -> role and permissions; pure
- `nats_jwt`       the JWTs of nats-server's callout protocol; pure
- `arrangements`   configurations with the callout or with static keys
- `server_config`  their parts, in the server's format; pure
- `key_folder`     seeds in files, and their rotation
- `service`, `settings`, `instruments`   connecting, configuration, metrics
"""
