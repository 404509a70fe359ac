// NATS' client protocol, the part that a reader needs: https://docs.nats.io/reference/reference-protocols/nats-protocol
// Bytes in, calls out; without socket or clock.

const decoder = new TextDecoder();
const encoder = new TextEncoder();
const CR = 13;
const LF = 10;
// Maximum size of an incomplete line or message; the server's max_payload is 2 MiB.
const PENDING_MOST_BYTES = 4 * 1024 * 1024;

export class ProtocolError extends Error {}

// Parses the server's bytes, wherever frames split them. `handler`: info(fields), message(m), ping(), pong(),
// failed(text). A message is {sid, subject, reply, payload, status, headers}.
export class Parser {
  constructor(handler) {
    this.handler = handler;
    this.pending = new Uint8Array(0);
    this.expected = null;
  }

  push(bytes) {
    let buffer = bytes;
    if (this.pending.length > 0) {
      buffer = new Uint8Array(this.pending.length + bytes.length);
      buffer.set(this.pending);
      buffer.set(bytes, this.pending.length);
    }
    let at = 0;
    while (at < buffer.length) {
      const next = this.expected ? this.body(buffer, at) : this.line(buffer, at);
      if (next < 0) break;
      at = next;
    }
    // A copy: the frame's buffer must not be kept alive by its last bytes.
    this.pending = buffer.slice(at);
    if (this.pending.length > PENDING_MOST_BYTES) throw new ProtocolError("a message without an end");
  }

  // Where the next line or message starts; -1 while it is not complete.
  line(buffer, at) {
    const end = buffer.indexOf(CR, at);
    if (end < 0 || end + 1 >= buffer.length) return -1;
    if (buffer[end + 1] !== LF) throw new ProtocolError("a line that does not end with CR LF");
    this.command(decoder.decode(buffer.subarray(at, end)));
    return end + 2;
  }

  body(buffer, at) {
    const found = this.expected;
    const end = at + found.bytes;
    if (end + 2 > buffer.length) return -1;
    this.expected = null;
    const headers = found.headerBytes > 0 ? parseHeaders(buffer.subarray(at, at + found.headerBytes)) : NO_HEADERS;
    this.handler.message({
      sid: found.sid,
      subject: found.subject,
      reply: found.reply,
      status: headers.status,
      headers: headers.values,
      payload: buffer.subarray(at + found.headerBytes, end),
    });
    return end + 2;
  }

  command(line) {
    const space = line.indexOf(" ");
    const word = (space < 0 ? line : line.slice(0, space)).toUpperCase();
    const rest = space < 0 ? "" : line.slice(space + 1);
    if (word === "MSG") this.expected = header(rest.split(" "), false);
    else if (word === "HMSG") this.expected = header(rest.split(" "), true);
    else if (word === "PING") this.handler.ping();
    else if (word === "PONG") this.handler.pong();
    else if (word === "INFO") this.handler.info(JSON.parse(rest));
    else if (word === "-ERR") this.handler.failed(rest.replace(/^'|'$/g, ""));
    else if (word !== "+OK") throw new ProtocolError(`an unknown command ${word.slice(0, 20)}`);
  }
}

const NO_HEADERS = { status: 0, values: new Map() };

// MSG subject sid [reply] bytes        HMSG subject sid [reply] headerBytes bytes
function header(words, withHeaders) {
  const numbers = withHeaders ? 2 : 1;
  const bytes = Number(words[words.length - 1]);
  const headerBytes = withHeaders ? Number(words[words.length - 2]) : 0;
  const hasReply = words.length === 3 + numbers;
  if ((words.length !== 2 + numbers && !hasReply) || !Number.isInteger(bytes) || !(headerBytes <= bytes)) {
    throw new ProtocolError("a message with a malformed first line");
  }
  return { subject: words[0], sid: words[1], reply: hasReply ? words[2] : "", bytes, headerBytes };
}

function parseHeaders(bytes) {
  const [first, ...lines] = decoder.decode(bytes).split("\r\n");
  const values = new Map();
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon > 0) values.set(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return { status: Number(first.split(" ")[1] || 0), values };
}

export function formatConnect(fields) {
  return encoder.encode(`CONNECT ${JSON.stringify(fields)}\r\nPING\r\n`);
}

export function formatSubscribe(subject, sid) {
  return encoder.encode(`SUB ${subject} ${sid}\r\n`);
}

export function formatUnsubscribe(sid) {
  return encoder.encode(`UNSUB ${sid}\r\n`);
}

export function formatPublish(subject, reply, text) {
  const payload = encoder.encode(text);
  const line = encoder.encode(`PUB ${subject} ${reply} ${payload.length}\r\n`);
  const bytes = new Uint8Array(line.length + payload.length + 2);
  bytes.set(line);
  bytes.set(payload, line.length);
  bytes.set([CR, LF], bytes.length - 2);
  return bytes;
}

export const PING = encoder.encode("PING\r\n");
export const PONG = encoder.encode("PONG\r\n");
