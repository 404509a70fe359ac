"""Protocol buffers' encoding of the few fields that we send and read, without generated code.

Source: https://protobuf.dev/programming-guides/encoding/.
"""

from collections.abc import Iterator

# Wire types: numbers, what tells its length, and what has always the same.
_VARINT, _BYTES = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}
# Ten bytes of seven bits hold 64.
_VARINT_BITS = 70


def encode_text(number: int, text: str) -> bytes:
    """One field that holds a text.

    >>> encode_text(2, "ab")
    b'\\x12\\x02ab'
    """
    data = text.encode()
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """Return a number of 0 or more, seven bits a byte.

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
    """(number, value) of each field of a message; fixed-size ones as their bytes. Raises `ValueError`.

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
            raise ValueError(f"field {number} has the wire type {kind}, which is none")
        if offset + size > len(data):
            raise ValueError(f"field {number} has {size} bytes, of which {len(data) - offset} are there")
        yield number, data[offset : offset + size]
        offset += size


def _decode_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number and where the next thing begins."""
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        if offset >= len(data):
            raise ValueError("ends in the middle of a number")
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise ValueError(f"a number of more than {_VARINT_BITS} bits")
