"""The names of every stream, consumer and bucket of CARICO; how they are made is in `runtime.bus.streams`."""

CAPACITY = "CARICO_CAPACITY"
SUBSPACES = "CARICO_SUBSPACES"
DECISIONS = "CARICO_DECISIONS"
CLAIMS = "CARICO_CLAIMS"
HISTORY = "CARICO_HISTORY"
MODEL_BUCKET = "carico_model"
MODEL_KEY = "global"
# How a bucket's key is stored (ADR-8): named outright, so that neither put nor get asks for the bucket first.
MODEL_STREAM = f"KV_{MODEL_BUCKET}"
MODEL_SUBJECT = f"$KV.{MODEL_BUCKET}.{MODEL_KEY}"
# What aggregators keep of the usage of classes, divided over a fixed number of keys.
USAGE_BUCKET = "carico_usage"
USAGE_KEYS = 16
USAGE_STREAM = f"KV_{USAGE_BUCKET}"
USAGE_SUBJECTS = f"$KV.{USAGE_BUCKET}.*"
CONSUMER = "aggregators"

ALL = (CAPACITY, SUBSPACES, DECISIONS, CLAIMS, HISTORY, MODEL_STREAM, USAGE_STREAM)
# What people may read of: the work queue is the aggregators' alone, a reader of it would take messages from them.
PUBLIC = (CAPACITY, DECISIONS, HISTORY, MODEL_STREAM)


def usage_subject(key: int) -> str:
    """Return the subject of a key of the bucket with usage."""
    return f"$KV.{USAGE_BUCKET}.{key}"
