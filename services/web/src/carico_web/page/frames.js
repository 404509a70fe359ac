// Draws what changed: each part at its own maximum rate, and one part per frame, so that frames are short.

export class Frames {
  constructor() {
    this.parts = new Map();
    // When the next frame is due; -Infinity: it is asked for; Infinity: none is.
    this.nextMs = Infinity;
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

  // For what a part has waited for since it was first drawn: in the next frames, whatever its rate.
  touchNow(name) {
    const part = this.parts.get(name);
    part.lastMs = -Infinity;
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
    if (this.isHeld || document.hidden) return;
    let dueMs = Infinity;
    for (const part of this.parts.values()) if (part.isTouched) dueMs = Math.min(dueMs, part.lastMs + part.periodMs);
    // A part that is due sooner does not wait for the others.
    if (dueMs >= this.nextMs) return;
    clearTimeout(this.timer);
    const wait = dueMs - performance.now();
    const frame = () => {
      this.nextMs = -Infinity;
      requestAnimationFrame(() => this.frame());
    };
    this.nextMs = dueMs;
    if (wait > 20) this.timer = setTimeout(frame, wait - 8);
    else frame();
  }

  frame() {
    this.nextMs = Infinity;
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
