// Numbers with units for people, with the terms of docs/glossary.md. Only this module formats numbers.

// Created once: creating one takes longer than all formatting.
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const PREFIXES = ["", "k", "M", "G", "T"];
// Units of dimensions, as in carico_core.domain.amounts; all others are shares.
const COUNTED = { cpu: "tasks", gpu: "GPUs" };
const SIZED = { memory: "B", gpu_memory: "B", network: "B/s" };

export function percent(share) {
  const value = 100 * share;
  return `${fixed(value, value === 0 || Math.abs(value) >= 9.95 ? 0 : 1)} %`;
}

// A sentence begins with a capital letter.
export function capital(text) {
  return text.replace(/^./, (first) => first.toUpperCase());
}

// A count with separators: 12,345.
export function whole(number) {
  return fixed(number, 0);
}

export function count(number, one, many = `${one}s`) {
  return `${whole(number)} ${number === 1 ? one : many}`;
}

// The replica of one of its starts, as carico_core.domain.names has it.
export function replica(start) {
  return start.replace(/[-_][0-9a-f]{16}$/, "");
}

// CPU in use, as `kubectl top` shows it.
export function millicores(cores) {
  return `${whole(1000 * cores).replaceAll(",", "")}m`;
}

// A fractional number of Pods.
export function pods(number) {
  return fixed(number, Number.isInteger(number) || Math.abs(number) >= 99.95 ? 0 : 1);
}

// Pods with their standard deviation, both to the same digit.
export function podsAbout(mean, sd) {
  const digits = Math.max(Math.abs(mean), sd) >= 99.95 ? 0 : 1;
  return `${fixed(mean, digits)} ± ${fixed(sd, digits)}`;
}

export function seconds(s) {
  if (s <= 0) return "0 s";
  if (s < 0.0009995) return `${whole(s * 1e6)} µs`;
  if (s < 0.9995) return `${short(s * 1000)} ms`;
  if (s < 119.5) return `${short(s)} s`;
  if (s < 7170) return `${whole(s / 60)} min`;
  return s < 172_800 ? `${whole(s / 3600)} h` : `${whole(s / 86_400)} days`;
}

// A quantity of a dimension in its physical unit.
export function quantity(dim, value) {
  if (COUNTED[dim]) return `${counted(value)} ${COUNTED[dim]}`;
  if (!SIZED[dim]) return percent(value);
  const { size, prefix } = scale(value);
  return `${fixed(value / size, size === 1 || Math.abs(value) / size >= 99.95 ? 0 : 1)} ${prefix}${SIZED[dim]}`;
}

// A mean and its standard deviation in one unit, without digits that the deviation makes meaningless.
export function estimate(dim, found) {
  if (found === null) return "not known yet";
  const { mean, sd } = found;
  if (COUNTED[dim]) return `${counted(mean)} ± ${counted(sd)} ${COUNTED[dim]}`;
  const { size, prefix } = SIZED[dim] ? scale(Math.max(Math.abs(mean), sd)) : { size: 0.01, prefix: "" };
  const digits = size === 1 || sd / size >= 9.95 ? 0 : 1;
  return `${fixed(mean / size, digits)} ± ${fixed(sd / size, digits)} ${prefix}${SIZED[dim] || "%"}`;
}

export function perSecond(rate) {
  return `${fixed(rate, rate === 0 || rate >= 99.95 ? 0 : 1)}/s`;
}

export function degrees(angle) {
  return `${fixed(angle, Number.isInteger(angle) ? 0 : 1)}°`;
}

export function times(factor) {
  return `${fixed(factor, factor >= 9.95 ? 0 : 2)} times`;
}

// A score of nodes: it has no unit, only its order counts.
export function score(value) {
  return fixed(value, 2);
}

export function clock(ms) {
  return TIME.format(ms);
}

// The date, as in "2026-11-23".
export function day(ms) {
  const at = new Date(ms);
  return [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

// A time of day, with its date where that is not today's.
export function moment(ms, nowMs) {
  return day(ms) === day(nowMs) ? clock(ms) : `${day(ms)} ${clock(ms)}`;
}

export function dimension(dim) {
  if (dim === "cpu") return "CPU";
  if (dim.startsWith("gpu")) return dim.replace("gpu", "GPU").replaceAll("_", " ");
  return dim.replaceAll("_", " ");
}

function counted(value) {
  return fixed(value, Math.abs(value) >= 99.95 ? 0 : 2);
}

function short(value) {
  return fixed(value, value >= 9.95 || Number.isInteger(value) ? 0 : 1);
}

// Steps at 999.5, so that nothing is shown as 1000 of a smaller unit.
function scale(number) {
  let size = 1;
  let step = 0;
  while (Math.abs(number) / size >= 999.5 && step < PREFIXES.length - 1) {
    size *= 1000;
    step += 1;
  }
  return { size, prefix: PREFIXES[step] };
}

// A number with this many decimals; a zero has no minus.
function fixed(value, digits) {
  const text = digits === 0 ? WHOLE.format(Math.abs(value)) : Math.abs(value).toFixed(digits);
  return value < 0 && /[1-9]/.test(text) ? `−${text}` : text;
}
