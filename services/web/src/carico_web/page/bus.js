// The connection to the bus: it reconnects by itself, with its subscriptions.

import * as protocol from "./protocol.js";

const FIRST_PAUSE_MS = 500;
const LAST_PAUSE_MS = 5000;
// A server that is silently gone is noticed within two of these.
const PING_EVERY_MS = 5000;
const CONNECT_WITHIN_MS = 8000;
const ANSWER_WITHIN_MS = 4000;
// Readers' inboxes: carico_core.wire.roles.
const INBOX = "_INBOX.reader";
const NO_RESPONDERS = 503;

export class NoAnswer extends Error {}
export class LateAnswer extends NoAnswer {}

export class Bus {
  // `identify(nonce)` returns the identity for CONNECT; `notify(state)` receives {kind: connecting|live|away, why, retryMs}.
  constructor({ address, identify, notify, Socket = globalThis.WebSocket }) {
    this.address = address;
    this.identify = identify;
    this.notify = notify;
    this.Socket = Socket;
    this.subscriptions = new Map();
    this.answers = new Map();
    this.nextSid = 1;
    this.inbox = `${INBOX}.${token()}`;
    this.failures = 0;
    this.everLive = false;
    this.bytes = 0;
    this.subscribe(`${this.inbox}.*`, (message) => this.answered(message));
  }

  start() {
    this.open();
    // The browser knows at once that the network is back.
    globalThis.addEventListener?.("online", () => this.again());
  }

  // For every connection, until it is ended. Returns what `unsubscribe` takes.
  subscribe(subject, handler) {
    const sid = String(this.nextSid++);
    this.subscriptions.set(sid, { subject, handler });
    if (this.isSignedOn) this.socket.send(protocol.formatSubscribe(subject, sid));
    return sid;
  }

  unsubscribe(sid) {
    this.subscriptions.delete(sid);
    if (this.isSignedOn) this.socket.send(protocol.formatUnsubscribe(sid));
  }

  // Whether CONNECT has been sent, and the subscriptions of that time.
  get isSignedOn() {
    return this.connected === this.socket && this.socket?.readyState === 1;
  }

  // What one service answers, as text. Rejects with NoAnswer: no service, a timeout (LateAnswer), or the service's refusal.
  async request(subject, fields, withinMs) {
    const [answer] = await this.requestAll(subject, fields, () => true, withinMs);
    return new TextDecoder().decode(answer.payload);
  }

  // Messages until `isLast(message)`, which is kept.
  requestAll(subject, fields, isLast, withinMs = ANSWER_WITHIN_MS) {
    if (!this.isLive) return Promise.reject(new NoAnswer("the bus is not available"));
    const key = token();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.settle(key, new LateAnswer("no answer in time")), withinMs);
      this.answers.set(key, { found: [], isLast, resolve, reject, timer });
      this.socket.send(protocol.formatPublish(subject, `${this.inbox}.${key}`, JSON.stringify(fields)));
    });
  }

  again() {
    if (this.isLive || !this.retry) return;
    clearTimeout(this.retry);
    this.retry = null;
    this.open();
  }

  // ---- one connection

  open() {
    this.retry = null;
    this.error = "";
    this.notify({ kind: this.failures === 0 ? "connecting" : "away", why: this.why, retryMs: 0 });
    let socket;
    try {
      socket = new this.Socket(this.address);
    } catch (error) {
      this.lost(`the address ${this.address} is refused by the browser (${error.message})`);
      return;
    }
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    const parser = new protocol.Parser({
      info: (info) => this.signOn(socket, info),
      message: (message) => this.deliver(message),
      ping: () => socket.send(protocol.PONG),
      pong: () => this.ponged(socket),
      failed: (text) => this.refused(text),
    });
    socket.onmessage = (event) => this.take(socket, parser, event.data);
    socket.onclose = () => this.closed(socket);
    this.deadline = setTimeout(() => this.drop(socket, "no answer in time"), CONNECT_WITHIN_MS);
  }

  take(socket, parser, data) {
    if (socket !== this.socket) return;
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
    this.bytes += bytes.length;
    this.unanswered = 0;
    try {
      parser.push(bytes);
    } catch (error) {
      this.drop(socket, `its data is not NATS: ${error.message}`);
    }
  }

  async signOn(socket, info) {
    if (this.signedOn === socket) return;
    this.signedOn = socket;
    try {
      const identity = await this.identify(info.nonce || "");
      if (socket !== this.socket || socket.readyState !== 1) return;
      socket.send(protocol.formatConnect({ ...ABOUT, ...identity }));
      // Without waiting for PONG, which comes before the first message: the server reads in order.
      for (const [sid, { subject }] of this.subscriptions) socket.send(protocol.formatSubscribe(subject, sid));
      this.connected = socket;
    } catch (error) {
      this.drop(socket, `this page's server gives no identity: ${error.message}`);
    }
  }

  ponged(socket) {
    if (this.isLive) return;
    clearTimeout(this.deadline);
    this.isLive = true;
    this.everLive = true;
    this.failures = 0;
    this.unanswered = 0;
    this.pinger = setInterval(() => this.ping(socket), PING_EVERY_MS);
    this.notify({ kind: "live", why: "", retryMs: 0 });
  }

  ping(socket) {
    this.unanswered += 1;
    if (this.unanswered > 2) this.drop(socket, "it stopped responding");
    else socket.send(protocol.PING);
  }

  refused(text) {
    // Of one subject: that part stays empty. All else ends the connection, which the server closes.
    if (/permissions violation/i.test(text)) console.warn(`the bus: ${text}`);
    else this.error = /expired/i.test(text) ? "our token has expired" : `it says: ${text}`;
  }

  drop(socket, why) {
    if (socket !== this.socket) return;
    this.error = why;
    socket.onclose = null;
    socket.close();
    this.closed(socket);
  }

  closed(socket) {
    if (socket !== this.socket) return;
    this.socket = null;
    clearTimeout(this.deadline);
    clearInterval(this.pinger);
    this.isLive = false;
    for (const key of [...this.answers.keys()]) this.settle(key, new NoAnswer("the bus is not available"));
    this.lost(this.error || (this.everLive || this.failures < 3 ? "" : "is its WebSocket on, and does it allow this page's address?"));
  }

  lost(why) {
    const pause = Math.min(LAST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.failures) * (0.75 + 0.5 * Math.random());
    this.failures += 1;
    this.why = why;
    this.retry = setTimeout(() => this.open(), pause);
    this.notify({ kind: "away", why, retryMs: pause });
  }

  // ---- messages

  deliver(message) {
    const subscription = this.subscriptions.get(message.sid);
    if (!subscription) return;
    try {
      subscription.handler(message);
    } catch (error) {
      // One bad message must not end the page.
      console.warn(`dropped a message on ${message.subject}: ${error.message}`);
    }
  }

  answered(message) {
    const key = message.subject.slice(this.inbox.length + 1);
    const waiting = this.answers.get(key);
    if (!waiting) return;
    const refusal = message.headers.get("Nats-Service-Error");
    if (message.status === NO_RESPONDERS) this.settle(key, new NoAnswer("no service answers"));
    else if (refusal !== undefined) this.settle(key, new NoAnswer(refusal));
    else {
      // Copied: the buffer is the frame's.
      waiting.found.push({ ...message, payload: message.payload.slice() });
      if (waiting.isLast(message)) this.settle(key, null);
    }
  }

  settle(key, error) {
    const waiting = this.answers.get(key);
    this.answers.delete(key);
    clearTimeout(waiting.timer);
    if (error) waiting.reject(error);
    else waiting.resolve(waiting.found);
  }
}

const ABOUT = {
  verbose: false, pedantic: false, headers: true, no_responders: true, echo: false, protocol: 1,
  lang: "javascript", version: "carico-web", name: "carico web page",
};

function token() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => (byte & 31).toString(32)).join("");
}
