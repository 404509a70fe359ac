// Numbers and units as people read them; words of docs/glossary.md.

// Made once: making one takes longer than all that it formats.
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const BYTES = ["B", "kB", "MB", "GB", "TB"];

export function percent(share) {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

export function pods(count) {
  const size = Math.abs(count) < 0.05 ? 0 : Math.abs(count);
  return `${count < 0 && size > 0 ? "−" : ""}${size >= 100 || Number.isInteger(size) ? Math.round(size) : size.toFixed(1)}`;
}

export function seconds(s) {
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 1) return `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 120) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  return s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}

export function bytes(count) {
  let value = Math.abs(count);
  let unit = 0;
  while (value >= 999.5 && unit < BYTES.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${count < 0 ? "−" : ""}${value.toFixed(value >= 100 || unit === 0 ? 0 : 1)} ${BYTES[unit]}`;
}

// A quantity of a dimension in its physical unit: tasks of the CPU, bytes of memory, parts of the whole of the others.
export function quantity(dim, value) {
  if (dim.endsWith("memory")) return bytes(value);
  if (dim === "cpu") return `${signed(value)} tasks`;
  return signed(value);
}

export function estimate(dim, found) {
  if (found === null) return "not known yet";
  return dim === "cpu" ? `${signed(found.mean)} ± ${quantity(dim, found.sd)}` : `${quantity(dim, found.mean)} ± ${quantity(dim, found.sd)}`;
}

export function clock(ms) {
  return TIME.format(ms);
}

export function dimension(dim) {
  if (dim === "cpu") return "CPU";
  if (dim.startsWith("gpu")) return dim.replace("gpu", "GPU").replaceAll("_", " ");
  return dim.replaceAll("_", " ");
}

export function count(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}

function signed(value) {
  const size = Math.abs(value);
  return `${value < 0 ? "−" : ""}${size >= 100 ? size.toFixed(0) : size.toFixed(2)}`;
}
