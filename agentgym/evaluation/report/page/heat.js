// Credit as colour: blue for more of this, orange for less, the stronger the further from zero; never without its number.

import { h } from "./dom.js";
import { signed } from "./words.js";

/** The advantage that gets the full colour: the largest of a group, so that its episodes can be compared. */
export function heatScale(lists) {
  const found = lists.flat().filter((value) => value !== null && value !== undefined).map(Math.abs);
  return found.reduce((a, b) => Math.max(a, b), 0) || 1;
}

/** Attributes that colour an element by an advantage. */
export function heated(value, scale) {
  if (value === null || value === undefined) return { class: "heat unknown" };
  const side = value > 0 ? "plus" : value < 0 ? "minus" : "zero";
  return { class: `heat ${side}`, vars: { "--heat": `${(value ? 8 + 46 * Math.min(1, Math.abs(value) / scale) : 0).toFixed(0)}%` } };
}

/** One cell a turn. `turns`: advantages, null where there are none; `goTo` is called with the turn of a cell. */
export function heatStrip(turns, scale, goTo, current = -1) {
  return h("span", { class: "strip" }, turns.map((value, i) => {
    const { class: kind, vars } = heated(value, scale);
    const told = `turn ${i + 1}: ${value === null || value === undefined ? "no credit" : `credit ${signed(value)}`}`;
    const shape = { class: `${kind}${i === current ? " current" : ""}`, vars, title: told };
    return goTo ? h("button", { ...shape, type: "button", "aria-label": told, onclick: () => goTo(i) }) : h("i", shape);
  }));
}

/** What the colours mean. */
export function heatLegend(scale) {
  return h("p", { class: "legend heat-legend" }, h("span", { class: "ramp", "aria-hidden": "true" }),
    h("span", {}, `${signed(-scale)} less of this`), h("span", {}, `${signed(scale)} more of this`));
}
