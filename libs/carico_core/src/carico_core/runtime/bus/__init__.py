"""The message bus on NATS with JetStream.

- `port`: what passes over the bus, and its settings. Services know nothing else.
- `serving`: how a service lives on a bus: it connects, repeats what is not taken yet, and answers while it leads.
- `listening`: what agents report, without those of them that flood.
- `nats_bus`: the bus on NATS. `connect` is the way in; the rest of this package are its parts:
  - connecting: `connection_options`, `nats_client` (nats-py's client, with TLS and nkeys of ours), `nats_server`
    (joining a server, checking its version, translating errors), `upkeep` (what is done at each reconnect), `security`
    (TLS, nkeys, tokens and their renewal);
  - `streams`: what is kept on the bus;
  - messages: `requests` (many in one write, or one that many answer), `responders` (answering
    requests), `services` (NATS's services framework).
"""
