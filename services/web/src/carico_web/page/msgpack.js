// The value of msgpack bytes, as far as CARICO's messages use it: https://github.com/msgpack/msgpack/blob/master/spec.md
// 64-bit integers become numbers: times in ns lose digits that are not shown.

const decoder = new TextDecoder();
// carico_core.wire.codec refuses longer ones too.
const ITEMS_MOST = 16384;
const DEPTH_MOST = 32;

export function decode(bytes) {
  const reader = new Reader(bytes);
  const value = reader.value(0);
  if (reader.at !== bytes.length) throw new Error("bytes after the value");
  return value;
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  value(depth) {
    if (depth > DEPTH_MOST) throw new Error("nested too deep");
    const tag = this.unsigned(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return this.map(tag & 15, depth);
    if (tag < 0xa0) return this.array(tag & 15, depth);
    if (tag < 0xc0) return this.text(tag & 31);
    if (tag >= 0xe0) return tag - 256;
    const read = KINDS[tag];
    if (!read) throw new Error(`unknown kind 0x${tag.toString(16)}`);
    return read(this, depth);
  }

  unsigned(size) {
    const at = this.skip(size);
    if (size === 1) return this.view.getUint8(at);
    if (size === 2) return this.view.getUint16(at);
    return size === 4 ? this.view.getUint32(at) : Number(this.view.getBigUint64(at));
  }

  signed(size) {
    const at = this.skip(size);
    if (size === 1) return this.view.getInt8(at);
    if (size === 2) return this.view.getInt16(at);
    return size === 4 ? this.view.getInt32(at) : Number(this.view.getBigInt64(at));
  }

  float(size) {
    const at = this.skip(size);
    return size === 4 ? this.view.getFloat32(at) : this.view.getFloat64(at);
  }

  text(length) {
    return decoder.decode(this.binary(length));
  }

  binary(length) {
    const at = this.skip(length);
    return this.bytes.subarray(at, at + length);
  }

  array(length, depth) {
    check(length);
    const values = [];
    for (let i = 0; i < length; i += 1) values.push(this.value(depth + 1));
    return values;
  }

  map(length, depth) {
    check(length);
    // Names come off the bus: a Map has no prototype to be overwritten.
    const values = new Map();
    for (let i = 0; i < length; i += 1) values.set(this.value(depth + 1), this.value(depth + 1));
    return values;
  }

  skip(length) {
    const at = this.at;
    if (at + length > this.bytes.length) throw new Error("ends too early");
    this.at += length;
    return at;
  }
}

function check(length) {
  if (length > ITEMS_MOST) throw new Error("too many items");
}

const KINDS = {
  0xc0: () => null,
  0xc2: () => false,
  0xc3: () => true,
  0xc4: (r) => r.binary(r.unsigned(1)),
  0xc5: (r) => r.binary(r.unsigned(2)),
  0xc6: (r) => r.binary(r.unsigned(4)),
  0xca: (r) => r.float(4),
  0xcb: (r) => r.float(8),
  0xcc: (r) => r.unsigned(1),
  0xcd: (r) => r.unsigned(2),
  0xce: (r) => r.unsigned(4),
  0xcf: (r) => r.unsigned(8),
  0xd0: (r) => r.signed(1),
  0xd1: (r) => r.signed(2),
  0xd2: (r) => r.signed(4),
  0xd3: (r) => r.signed(8),
  0xd9: (r) => r.text(r.unsigned(1)),
  0xda: (r) => r.text(r.unsigned(2)),
  0xdb: (r) => r.text(r.unsigned(4)),
  0xdc: (r, depth) => r.array(r.unsigned(2), depth),
  0xdd: (r, depth) => r.array(r.unsigned(4), depth),
  0xde: (r, depth) => r.map(r.unsigned(2), depth),
  0xdf: (r, depth) => r.map(r.unsigned(4), depth),
};
