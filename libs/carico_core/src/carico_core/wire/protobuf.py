"""Protocol buffers' encoding of the few fields that we send, without generated code.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

# The wire type of fields that tell their length.
_BYTES = 2


def encode_text(number: int, text: str) -> bytes:
    """One field that holds a text.

    >>> encode_text(2, "ab")
    b'\\x12\\x02ab'
    """
    data = text.encode()
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """A number of 0 or more, seven bits a byte.

    >>> encode_varint(150)
    b'\\x96\\x01'
    """
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
