// The federated model as a picture: each node's direction and strength against the cluster's.

import { font, Sheet } from "./canvas.js";
import * as format from "./format.js";
import * as linear from "./linear.js";

const FAN_HEIGHT = 190;
const ROW = 34;
// The angle of the fan's edges on the screen; its meaning depends on the nodes' spread.
const EDGE = Math.PI / 3;
const SPREADS = [5, 15, 30, 60, 90, 180];

export class ModelView {
  constructor(fan, strips, { fleet, theme, frames }) {
    Object.assign(this, { fleet, theme });
    this.fan = new Sheet(fan, () => frames.touch("fan"));
    this.strips = new Sheet(strips, () => frames.touch("strips"));
    this.model = null;
    this.main = [];
    this.selected = null;
  }

  take(model) {
    this.model = model;
    this.main = linear.mainDirection(model.gram);
  }

  // A node's direction in the model's dimensions; null if it is unknown.
  direction(node) {
    if (!this.model || node.state === "absent") return null;
    const found = this.model.dims.map((dim) => {
      const at = node.ad.dims.indexOf(dim);
      return at < 0 ? 0 : node.ad.direction[at];
    });
    return linear.norm(found) > 1e-9 ? found : null;
  }

  // How far a node's direction lies from the cluster's, and its strength relative to it.
  against(node) {
    const direction = this.direction(node);
    if (!direction || linear.norm(this.main) < 1e-9) return null;
    return { angle: linear.angle(direction, this.main), strength: linear.norm(direction) / linear.norm(this.main) };
  }

  drawFan() {
    const context = this.fan.begin(FAN_HEIGHT);
    const width = this.fan.width;
    const origin = [width / 2, FAN_HEIGHT - 20];
    const reach = Math.min(FAN_HEIGHT - 40, width / 2 / Math.sin(EDGE) - 6);
    const size = linear.norm(this.main);
    const shown = this.placed(size);
    const strongest = Math.max(size * 1.15, ...shown.map((each) => each.strength), 1e-9);
    const spread = spreadOf(shown);
    this.grid(context, origin, reach, spread, strongest);
    if (!this.model || size < 1e-9) return this.nothing(context, width, FAN_HEIGHT / 2);
    const at = (angle, strength) => {
      const turn = Math.min(1, Math.max(-1, angle / spread)) * EDGE;
      const far = (reach * strength) / strongest;
      return [origin[0] + far * Math.sin(turn), origin[1] - far * Math.cos(turn)];
    };
    for (const each of shown) {
      const [x, y] = at(each.angle, each.strength);
      const isSelected = each.name === this.selected;
      if (isSelected || shown.length <= 24) this.ray(context, origin, [x, y], isSelected ? this.theme.ink : this.theme.lines[1], isSelected ? 1.5 : 0.8);
      this.dot(context, x, y, isSelected);
    }
    const tip = at(0, size);
    this.ray(context, origin, tip, this.theme.warm, 3);
    diamond(context, ...tip, 5.5, this.theme.warm);
  }

  // Angle (left: more of the first dimension than the cluster) and strength of each node.
  placed(size) {
    if (size < 1e-9) return [];
    const found = [];
    for (const node of this.fleet.order()) {
      const direction = this.direction(node);
      if (!direction) continue;
      const strength = linear.norm(direction);
      const leans = direction[0] / strength > this.main[0] / size ? -1 : 1;
      found.push({ name: node.name, strength, angle: leans * linear.angle(direction, this.main) });
    }
    return found;
  }

  grid(context, origin, reach, spread, strongest) {
    context.strokeStyle = this.theme.faint;
    context.fillStyle = this.theme.soft;
    context.font = font(12);
    context.lineWidth = 1;
    for (const share of [0.5, 1]) {
      context.globalAlpha = 0.5;
      context.beginPath();
      context.arc(...origin, reach * share, -Math.PI / 2 - EDGE, -Math.PI / 2 + EDGE);
      context.stroke();
      context.globalAlpha = 1;
      context.textAlign = "left";
      context.textBaseline = "bottom";
      if (this.model) context.fillText(format.percent(strongest * share), origin[0] + 8, origin[1] - reach * share - 2);
    }
    const first = format.dimension(this.model?.dims[0] || "");
    context.textBaseline = "alphabetic";
    if (!first) return;
    context.textAlign = "left";
    context.fillText(`${format.degrees(spread)}, more ${first}`, 2, FAN_HEIGHT - 4);
    context.textAlign = "right";
    context.fillText(`less ${first}, ${format.degrees(spread)}`, this.fan.width - 2, FAN_HEIGHT - 4);
  }

  nothing(context, width, y) {
    context.textAlign = "center";
    context.fillStyle = this.theme.soft;
    context.font = font(12);
    context.fillText("no model yet", width / 2, y);
  }

  drawStrips() {
    const dims = this.model?.dims || [];
    // Below the fan, as on a phone, they can be lower.
    const least = this.strips.canvas.offsetTop === this.fan.canvas.offsetTop ? FAN_HEIGHT : 0;
    const context = this.strips.begin(Math.max(least, 30 + ROW * Math.max(1, dims.length)));
    const width = this.strips.width;
    const left = 84;
    const nodes = this.fleet.order().map((node) => [node, this.direction(node)]).filter(([, direction]) => direction);
    const most = Math.max(0.02, ...this.main.map(Math.abs), ...nodes.flatMap(([, direction]) => direction.map(Math.abs)));
    const gap = least && dims.length ? Math.min(70, (FAN_HEIGHT - 34) / dims.length) : ROW;
    const x = (value) => left + (Math.abs(value) / most) * (width - left - 48);
    dims.forEach((dim, i) => {
      const y = 14 + Math.max(ROW, gap) * (i + 0.5);
      this.strip(context, { dim, i, y, x, left, width, nodes });
    });
    if (!dims.length) this.nothing(context, width, this.strips.height / 2);
  }

  strip(context, { dim, i, y, x, left, width, nodes }) {
    context.font = font(12);
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = this.theme.ink;
    context.fillText(format.dimension(dim), left - 12, y);
    context.strokeStyle = this.theme.faint;
    context.beginPath();
    context.moveTo(left, Math.round(y) + 0.5);
    context.lineTo(width - 48, Math.round(y) + 0.5);
    context.stroke();
    context.fillStyle = this.theme.lines[1];
    context.globalAlpha = nodes.length > 200 ? 0.25 : 0.6;
    for (const [node, direction] of nodes) {
      // Offset by a few pixels per node, so that equal values do not hide each other.
      const jitter = nodes.length > 1 ? ((node.index * 7) % 13) - 6 : 0;
      context.fillRect(x(direction[i]) - 1.5, y + jitter - 1.5, 3, 3);
    }
    context.globalAlpha = 1;
    const chosen = nodes.find(([node]) => node.name === this.selected);
    if (chosen) this.dot(context, x(chosen[1][i]), y, true);
    diamond(context, x(this.main[i]), y, 6, this.theme.warm);
    context.textAlign = "right";
    context.fillStyle = this.theme.ink;
    context.fillText(format.percent(Math.abs(this.main[i])), width - 2, y);
  }

  ray(context, from, to, colour, width) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
  }

  dot(context, x, y, isSelected) {
    context.beginPath();
    context.arc(x, y, isSelected ? 5 : 2.5, 0, 7);
    if (isSelected) {
      context.strokeStyle = this.theme.ink;
      context.lineWidth = 2;
      context.stroke();
      return;
    }
    context.fillStyle = this.theme.lines[1];
    context.globalAlpha = 0.7;
    context.fill();
    context.globalAlpha = 1;
  }
}

// The range of 95 % of the nodes; the others are drawn at the edge.
function spreadOf(shown) {
  const angles = shown.map(({ angle }) => Math.abs(angle)).sort((a, b) => a - b);
  const most = angles[Math.floor(0.95 * (angles.length - 1))] || 0;
  return SPREADS.find((each) => most <= each) || SPREADS.at(-1);
}

function diamond(context, x, y, size, colour) {
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size, y);
  context.lineTo(x, y + size);
  context.lineTo(x - size, y);
  context.fill();
}
