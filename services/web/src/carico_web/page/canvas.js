// A canvas in CSS pixels, sharp on every screen.

// Around a chart: left of it the values of its axis, up to 1,000,000 Pods and "≥ 10 min".
export const PAD = { left: 72, right: 8, top: 8, bottom: 18 };

export class Sheet {
  // `resized` is called when its width changed.
  constructor(canvas, resized) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.width = canvas.clientWidth;
    new ResizeObserver(() => {
      // Without a layout (as while a browser captures a whole page) the last width stays.
      if (canvas.clientWidth === this.width || canvas.clientWidth === 0) return;
      this.width = canvas.clientWidth;
      resized();
    }).observe(canvas);
  }

  // The context, cleared, for a picture of this height.
  begin(height) {
    const ratio = globalThis.devicePixelRatio || 1;
    const [w, h] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.height = `${height}px`;
    }
    this.height = height;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.clearRect(0, 0, this.width, height);
    return this.context;
  }
}

export function font(size, weight = 400) {
  return `${weight} ${size}px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif`;
}

// A horizontal line, with its value to the left.
export function level(context, theme, { left, right, y, alpha, text }) {
  context.strokeStyle = theme.faint;
  context.globalAlpha = alpha;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(left, y);
  context.lineTo(right, y);
  context.stroke();
  context.globalAlpha = 1;
  context.fillStyle = theme.soft;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(text, left - 6, y);
}

// Text shortened in the middle to fit into `width`: names differ at their ends.
export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  for (let keep = text.length - 1; keep > 2; keep -= 1) {
    const short = `${text.slice(0, Math.floor(keep / 3))}…${text.slice(text.length - Math.ceil((2 * keep) / 3))}`;
    if (context.measureText(short).width <= width) return short;
  }
  return "";
}
