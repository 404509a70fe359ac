// Dark or light: the system's choice until one is made here. Colours of what is drawn come from style.css.

const KEY = "carico-theme";
const HEAT = {
  dark: ["#1a2531", "#1d5068", "#2c8a88", "#d2b566", "#ff9160"],
  light: ["#e4ecee", "#aed4d8", "#55a3a6", "#b8862b", "#ab3a1f"],
};
const STOPS = [0, 0.3, 0.58, 0.82, 1];
const STEPS = 64;
// The share of its colour that the cell of an ageing node keeps.
const AGED = 0.55;
const INKS = ["#000000", "#ffffff"];

export class Theme {
  constructor(changed) {
    this.changed = changed;
    this.system = matchMedia("(prefers-color-scheme: light)");
    this.system.addEventListener("change", () => this.read());
    this.read();
  }

  toggle() {
    const next = this.name === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // Storage is not available: the choice is for this visit only.
    }
    this.read();
  }

  // Paper is white: light while the page is printed.
  print(isPrinted) {
    const root = document.documentElement;
    if (isPrinted) {
      this.chosen = root.dataset.theme;
      root.dataset.theme = "light";
    } else if (this.chosen) root.dataset.theme = this.chosen;
    else delete root.dataset.theme;
    this.read();
  }

  read() {
    this.name = document.documentElement.dataset.theme || (this.system.matches ? "light" : "dark");
    const style = getComputedStyle(document.documentElement);
    const pick = (variable) => style.getPropertyValue(variable).trim();
    this.ink = pick("--ink");
    this.soft = pick("--soft");
    this.faint = pick("--faint");
    this.card = pick("--card");
    this.accent = pick("--accent");
    this.warm = pick("--warm");
    this.hot = pick("--hot");
    this.lines = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"].map(pick);
    Object.assign(this, heatOf(this.name, this.card));
    this.changed?.(this.name);
  }

  step(share) {
    return Math.round(Math.min(1, Math.max(0, share)) * STEPS);
  }
}

// The colours of the map's cells on a card of this colour, and of those that age; and the words' colour on each of them.
export function heatOf(name, card) {
  const heat = Array.from({ length: STEPS + 1 }, (_, i) => mix(HEAT[name], i / STEPS));
  const aged = heat.map((colour) => blend(rgb(card), colour, AGED));
  const [shown, faded] = [heat, aged].map((colours) => colours.map((colour) => `rgb(${colour.join(",")})`));
  return { heat: shown, heatInk: heat.map(inkOn), aged: faded, agedInk: aged.map(inkOn) };
}

function mix(colours, share) {
  const at = Math.max(1, STOPS.findIndex((stop) => share <= stop));
  return blend(rgb(colours[at - 1]), rgb(colours[at]), (share - STOPS[at - 1]) / (STOPS[at] - STOPS[at - 1]));
}

function blend(a, b, part) {
  return a.map((x, i) => Math.round(x + part * (b[i] - x)));
}

// Black or white always has a contrast of at least 4.5, enough for small text.
function inkOn(colour) {
  const [dark, light] = INKS.map((ink) => contrast(rgb(ink), colour));
  return INKS[dark >= light ? 0 : 1];
}

function rgb(hex) {
  return [1, 3, 5].map((i) => Number.parseInt(hex.slice(i, i + 2), 16));
}

// https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio
export function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

// Relative luminance: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance
function luminance(colour) {
  const [r, g, b] = colour.map((x) => {
    const c = x / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
