"""The protocol buffers encoding of the few fields that we send and read, without generated code.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from collections.abc import Iterator

# Wire types: variable-length integers, fields with a length prefix, and fixed sizes.
_VARINT, _BYTES = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}
# Ten bytes of seven bits hold 64.
_VARINT_BITS = 70


def encode_text(number: int, text: str) -> bytes:
    """Return one field with a text.

    >>> encode_text(2, "ab")
    b'\\x12\\x02ab'
    """
    data = text.encode()
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """Return the encoding of a non-negative number, seven bits per byte.

    >>> encode_varint(150)
    b'\\x96\\x01'
    """
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) of each field of a message; fixed-size ones as bytes. Raises `ValueError`.

    >>> list(fields(bytes([0x08, 0x96, 0x01, 0x12, 0x02]) + b"ab"))
    [(1, 150), (2, b'ab')]
    """
    offset = 0
    while offset < len(data):
        tag, offset = _decode_varint(data, offset)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, offset = _decode_varint(data, offset)
            yield number, value
            continue
        if kind == _BYTES:
            size, offset = _decode_varint(data, offset)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"field {number} has the unknown wire type {kind}")
        if offset + size > len(data):
            raise ValueError(f"field {number} has {size} bytes, got {len(data) - offset}")
        yield number, data[offset : offset + size]
        offset += size


def _decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number and the offset after it."""
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        if offset >= len(data):
            raise ValueError("the message ends within a number")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise ValueError(f"got a number of more than {_VARINT_BITS} bits")
