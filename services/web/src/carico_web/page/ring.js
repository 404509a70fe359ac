// The newest values of some series, in arrays of fixed size.

export class Ring {
  constructor(length, series) {
    this.length = length;
    this.times = new Float64Array(length);
    this.columns = Array.from({ length: series }, () => new Float32Array(length));
    this.size = 0;
    this.next = 0;
  }

  // Adds a row; it replaces the newest one if that is younger than `apartMs`, so that the ring always spans its time.
  push(timeMs, values, apartMs) {
    const last = (this.next + this.length - 1) % this.length;
    let at = this.next;
    if (this.size > 0 && timeMs - this.times[last] < apartMs) at = last;
    else {
      this.next = (this.next + 1) % this.length;
      this.size = Math.min(this.length, this.size + 1);
      this.times[at] = timeMs;
    }
    for (let i = 0; i < this.columns.length; i += 1) this.columns[i][at] = values[i];
  }

  oldestMs() {
    return this.size === 0 ? Infinity : this.times[(this.next + this.length - this.size) % this.length];
  }

  // Calls back with (time, index), oldest first; `columns[i][index]` are the values.
  forEach(visit) {
    const first = (this.next + this.length - this.size) % this.length;
    for (let i = 0; i < this.size; i += 1) {
      const at = (first + i) % this.length;
      visit(this.times[at], at);
    }
  }
}
