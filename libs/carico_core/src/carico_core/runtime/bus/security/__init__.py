"""Who we are on the bus, and who the server is.

- `tls`: TLS contexts from files that may be replaced while a service runs.
- `nkeys`: NATS's Ed25519 and Curve25519 keys in their text form: signing, sealing, verifying.
- `token_expiry`: when a connection must be renewed because its token expires; `renewal`: renews it before that, without
  a gap.
- `refusals`: what a server refuses, in one line with what to do.
"""
