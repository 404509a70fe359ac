"""Permissions on the bus as its docs state them, written independently of `carico_core.wire.roles` to check it."""

from carico_core.wire.roles import Role

EVERYONE = frozenset({Role.AGENT, Role.AGGREGATOR, Role.SCHEDULER, Role.READER, Role.CLI, Role.OWNER})
PEOPLE = frozenset({Role.READER, Role.CLI, Role.OWNER})
LOOKING = frozenset({Role.CLI, Role.OWNER})
MAKING = frozenset({Role.AGGREGATOR, Role.SCHEDULER, Role.OWNER})
OWNER = frozenset({Role.OWNER})
NOBODY: frozenset[Role] = frozenset()

# The agent is node-a's.
NODE = "node-a"

PUBLISH: dict[str, frozenset[Role]] = {
    "carico.v1.capacity.node-a": frozenset({Role.AGENT}),
    "carico.v1.capacity.node-b": NOBODY,
    "carico.v1.capacity.node-a.x": NOBODY,
    "carico.v1.capacity": NOBODY,
    "carico.v1.subspace.node-a": frozenset({Role.AGENT}),
    "carico.v1.subspace.node-b": NOBODY,
    "carico.v1.partial.r1": frozenset({Role.AGGREGATOR}),
    "carico.v1.model": frozenset({Role.AGGREGATOR}),
    "$KV.carico_model.global": frozenset({Role.AGGREGATOR}),
    "$KV.carico_model.other": NOBODY,
    "carico.v1.decision.default.pod": frozenset({Role.SCHEDULER}),
    "carico.v1.query.scheduler.capacity.list": PEOPLE,
    "carico.v1.query.agent.node-b.state.get": PEOPLE,
    "carico.v2.capacity.node-a": NOBODY,
    "$SRV.PING": PEOPLE,
    "$SRV.INFO.carico-agent": PEOPLE,
    "$SRV.STATS.carico-agent.x": PEOPLE,
    "$SRV.STOP": NOBODY,
    "$JS.API.DIRECT.GET.KV_carico_model.$KV.carico_model.global": EVERYONE - {Role.SCHEDULER},
    "$JS.API.DIRECT.GET.KV_carico_model": PEOPLE,
    "$JS.API.DIRECT.GET.CARICO_CAPACITY": PEOPLE | {Role.SCHEDULER},
    "$JS.API.DIRECT.GET.CARICO_DECISIONS": PEOPLE,
    "$JS.API.DIRECT.GET.CARICO_SUBSPACES": NOBODY,
    "$JS.API.INFO": LOOKING,
    "$JS.API.STREAM.LIST": LOOKING,
    "$JS.API.STREAM.INFO.CARICO_CAPACITY": LOOKING | MAKING,
    "$JS.API.CONSUMER.INFO.CARICO_SUBSPACES.aggregators": LOOKING | MAKING,
    "$JS.API.STREAM.CREATE.CARICO_CAPACITY": MAKING,
    "$JS.API.STREAM.CREATE.OTHER": OWNER,
    "$JS.API.STREAM.UPDATE.CARICO_CAPACITY": OWNER,
    "$JS.API.STREAM.DELETE.CARICO_DECISIONS": OWNER,
    "$JS.API.STREAM.PURGE.CARICO_DECISIONS": OWNER,
    "$JS.API.STREAM.MSG.GET.CARICO_DECISIONS": LOOKING,
    "$JS.API.STREAM.MSG.GET.CARICO_SUBSPACES": OWNER,
    "$JS.API.STREAM.MSG.DELETE.CARICO_DECISIONS": OWNER,
    "$JS.API.CONSUMER.CREATE.CARICO_SUBSPACES.aggregators.carico.v1.subspace.*": MAKING,
    "$JS.API.CONSUMER.CREATE.CARICO_SUBSPACES.mine.carico.v1.subspace.*": OWNER,
    "$JS.API.CONSUMER.CREATE.CARICO_DECISIONS.mine": OWNER,
    "$JS.API.CONSUMER.DURABLE.CREATE.CARICO_CAPACITY.mine": OWNER,
    "$JS.API.CONSUMER.DELETE.CARICO_SUBSPACES.aggregators": OWNER,
    "$JS.API.CONSUMER.MSG.NEXT.CARICO_SUBSPACES.aggregators": frozenset({Role.AGGREGATOR, Role.OWNER}),
    "$JS.ACK.CARICO_SUBSPACES.aggregators.1.1.1.1.1": frozenset({Role.AGGREGATOR, Role.OWNER}),
    "$JS.API.ACCOUNT.PURGE.CARICO": NOBODY,
    "$SYS.REQ.SERVER.PING": NOBODY,
    "$SYS.REQ.USER.AUTH": NOBODY,
    "_INBOX.agent.node-b.x": NOBODY,
    "_INBOX.scheduler.x": NOBODY,
    "anything": NOBODY,
}

SUBSCRIBE: dict[str, frozenset[Role]] = {
    "carico.v1.capacity.*": frozenset({Role.SCHEDULER}) | PEOPLE,
    # NATS lets `*` cover `>`; but no role may publish below a node's subject, so it grants nothing more.
    "carico.v1.capacity.>": frozenset({Role.SCHEDULER}) | PEOPLE,
    "carico.v1.>": NOBODY,
    "carico.v1.capacity.node-b": frozenset({Role.SCHEDULER}) | PEOPLE,
    "carico.v1.subspace.*": OWNER,
    "carico.v1.partial.*": frozenset({Role.AGGREGATOR}) | LOOKING,
    "carico.v1.model": frozenset({Role.AGENT, Role.AGGREGATOR}) | PEOPLE,
    "carico.v1.decision.*.*": PEOPLE,
    "carico.v1.decision.kube-system.*": PEOPLE,
    "carico.v1.query.agent.node-a.state.get": frozenset({Role.AGENT}),
    "carico.v1.query.agent.node-b.state.get": NOBODY,
    "carico.v1.query.agent.*.state.get": NOBODY,
    "carico.v1.query.scheduler.capacity.list": frozenset({Role.SCHEDULER}),
    "carico.v1.query.aggregator.model.get": frozenset({Role.AGGREGATOR}),
    "$SRV.PING": frozenset({Role.AGENT, Role.AGGREGATOR, Role.SCHEDULER}),
    "$SRV.PING.carico-agent.x": frozenset({Role.AGENT}),
    "$SRV.INFO.carico-scheduler": frozenset({Role.SCHEDULER}),
    "$SRV.>": NOBODY,
    "_INBOX.>": NOBODY,
    "_INBOX.agent.>": NOBODY,
    "_INBOX.agent.node-a.>": frozenset({Role.AGENT}),
    "_INBOX.agent.node-b.>": NOBODY,
    "_INBOX.scheduler.>": frozenset({Role.SCHEDULER}),
    "_INBOX.aggregator.>": frozenset({Role.AGGREGATOR}),
    "_INBOX.reader.>": frozenset({Role.READER}),
    "_INBOX.cli.>": frozenset({Role.CLI}),
    "_INBOX.owner.>": frozenset({Role.OWNER}),
    "$JS.API.>": NOBODY,
    "$JS.EVENT.ADVISORY.>": OWNER,
    "$KV.>": NOBODY,
    "$SYS.>": NOBODY,
    "$SYS.REQ.USER.AUTH": NOBODY,
    ">": NOBODY,
}
