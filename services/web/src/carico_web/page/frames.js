// Draws what changed: each part at its own maximum rate, and one part per frame, so that frames are short.

export class Frames {
  constructor() {
    this.parts = new Map();
    this.isAsked = false;
    this.isHeld = false;
    document.addEventListener("visibilitychange", () => this.ask());
  }

  add(name, periodMs, draw) {
    this.parts.set(name, { draw, periodMs, lastMs: -Infinity, isTouched: true });
    this.ask();
  }

  touch(name) {
    const part = this.parts.get(name);
    if (!part || part.isTouched) return;
    part.isTouched = true;
    this.ask();
  }

  touchAll() {
    for (const name of this.parts.keys()) this.touch(name);
  }

  // Draws what changed now, whatever its rate: for what is printed.
  drawNow() {
    for (const part of this.parts.values()) this.draw(part, performance.now());
  }

  hold(isHeld) {
    this.isHeld = isHeld;
    this.ask();
  }

  ask() {
    if (this.isAsked || this.isHeld || document.hidden) return;
    const now = performance.now();
    let wait = Infinity;
    for (const part of this.parts.values()) if (part.isTouched) wait = Math.min(wait, part.lastMs + part.periodMs - now);
    if (wait === Infinity) return;
    this.isAsked = true;
    const frame = () => requestAnimationFrame(() => this.frame());
    if (wait > 20) setTimeout(frame, wait - 8);
    else frame();
  }

  frame() {
    this.isAsked = false;
    const now = performance.now();
    let due = null;
    for (const part of this.parts.values()) {
      const late = now - part.lastMs - part.periodMs;
      if (part.isTouched && late >= -8 && (!due || late > now - due.lastMs - due.periodMs)) due = part;
    }
    if (due && !this.isHeld) this.draw(due, now);
    this.ask();
  }

  draw(part, now) {
    if (!part.isTouched) return;
    part.isTouched = false;
    part.lastMs = now;
    try {
      part.draw(now);
    } catch (error) {
      // One failing part must not stop the others; it is logged, and the tests check that.
      reportError(error);
    }
  }
}
