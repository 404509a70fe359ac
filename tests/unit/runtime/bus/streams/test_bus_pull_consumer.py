"""A server's status of a pull request is distinguished from messages of the queue."""

from carico_core.runtime.bus.streams import pull_consumer

HEADERS = b"NATS/1.0\r\nNats-Msg-Id: a-1\r\n\r\n"
STATUS = b"NATS/1.0 409 Consumer Deleted\r\nNats-Pending-Messages: 7\r\n\r\n"


def test_a_status_is_distinguished_from_a_message() -> None:
    assert pull_consumer.status_of(STATUS) == ("409", "Consumer Deleted")
    assert pull_consumer.status_of(HEADERS) is None
    assert pull_consumer.header_of(STATUS, b"Nats-Pending-Messages") == b"7"
    assert pull_consumer.header_of(HEADERS, b"Nats-Pending-Messages") is None
