// Line charts as SVG, with the values under the pointer, or under the arrow keys where the chart has the focus.

import { fill, h, svg } from "./dom.js";
import { number, percent } from "./words.js";

const WIDTH = 560;
const HEIGHT = 210;
const SIDE = { left: 46, right: 12, top: 10, bottom: 26 };

/**
 * A figure of lines over steps; nothing where there is no point.
 * Each of `series`: name, points [[x, y]], colour 1 to 5, and maybe band [[x, low, high]], raw points, dots.
 */
export function lineChart({ title, note = "", series, share = false, xLabel = "step", small = false }) {
  const lines = series.filter((one) => one.points?.length);
  if (!lines.length) return null;
  const xs = lines.flatMap((one) => one.points.map((p) => p[0]));
  const ys = lines.flatMap((one) => [...one.points, ...(one.raw ?? [])].map((p) => p[1]).concat((one.band ?? []).flatMap((b) => [b[1], b[2]])));
  const [left, right] = [least(xs), most(xs)];
  const yTicks = share ? [0, 0.25, 0.5, 0.75, 1] : ticks(least(ys), most(ys), small ? 3 : 5);
  const [low, high] = [yTicks[0], yTicks.at(-1)];
  const place = (x, y) => [
    SIDE.left + (right > left ? (x - left) / (right - left) : 0.5) * (WIDTH - SIDE.left - SIDE.right),
    HEIGHT - SIDE.bottom - ((Math.min(Math.max(y, low), high) - low) / (high - low)) * (HEIGHT - SIDE.top - SIDE.bottom),
  ];
  const digits = [3, 4, 5, 6, 7, 8].find((n) => new Set(yTicks.map((value) => number(value, n))).size === yTicks.length);
  const label = (value) => (share ? percent(value) : number(value));
  const cursor = svg("g", { class: "cursor" });
  const drawing = svg(
    "svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: "0", "aria-label": described(title, lines, label, xLabel) },
    yTicks.map((value) => {
      const y = place(left, value)[1];
      return [
        svg("line", { class: "rule", x1: SIDE.left, x2: WIDTH - SIDE.right, y1: y, y2: y }),
        svg("text", { class: "tick", x: SIDE.left - 7, y: y + 4, "text-anchor": "end" }, share ? label(value) : number(value, digits)),
      ];
    }),
    ticks(left, right, 6).filter((x) => x >= left && x <= right && Number.isInteger(x)).map((x) =>
      svg("text", { class: "tick", x: place(x, low)[0], y: HEIGHT - 8, "text-anchor": "middle" }, number(x))),
    [...lines].reverse().map((one) => drawn(one, place)),
    cursor,
  );
  const readout = h("span", { class: "readout" }, lastWords(lines, label));
  const figure = h(
    "figure", { class: small ? "chart small" : "chart" },
    h("figcaption", {}, h("b", {}, title), note && h("span", { class: "faint" }, note), readout),
    lines.length > 1 && h("ul", { class: "legend" }, lines.map((one) => h("li", { class: `c${one.colour}` }, one.name))),
    drawing,
  );
  const columns = [...new Set(xs)].sort((a, b) => a - b);
  let at = columns.length - 1;
  function show(index) {
    at = Math.min(Math.max(index, 0), columns.length - 1);
    const x = columns[at];
    const values = lines.map((one) => ({ one, point: one.points.find((p) => p[0] === x) })).filter((v) => v.point);
    const across = place(x, low)[0];
    fill(cursor, svg("line", { x1: across, x2: across, y1: SIDE.top, y2: HEIGHT - SIDE.bottom }),
      values.map(({ one, point }) => svg("circle", { class: `c${one.colour}`, cx: across, cy: place(...point)[1], r: 4 })));
    fill(readout, h("span", { class: "faint" }, `${xLabel} ${number(x)}  `),
      values.map(({ one, point }) => h("span", { class: `value c${one.colour}` }, share ? percent(point[1], 1) : number(point[1]), " ")));
  }
  function rest() {
    fill(cursor);
    fill(readout, lastWords(lines, label));
  }
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const across = ((event.clientX - box.left) / box.width) * WIDTH;
    const x = left + ((across - SIDE.left) / (WIDTH - SIDE.left - SIDE.right)) * (right - left);
    show(columns.reduce((best, one, i) => (Math.abs(one - x) < Math.abs(columns[best] - x) ? i : best), 0));
  });
  drawing.addEventListener("pointerleave", rest);
  drawing.addEventListener("blur", rest);
  drawing.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    show(at + (event.key === "ArrowLeft" ? -1 : 1));
  });
  return figure;
}

/** A small line without axes, for a row of a table. */
export function sparkline(points, told) {
  const ys = points.map((p) => p[1]);
  const [low, high] = [Math.min(0, ...ys), Math.max(1e-9, ...ys)];
  const [left, right] = [points[0][0], points.at(-1)[0]];
  const place = ([x, y]) => `${(2 + (96 * (x - left)) / (right - left || 1)).toFixed(1)},${(22 - (20 * (y - low)) / (high - low)).toFixed(1)}`;
  return svg("svg", { class: "spark c1", viewBox: "0 0 100 24", role: "img", "aria-label": told },
    svg("polyline", { class: "line", points: points.map(place).join(" ") }),
    svg("circle", { cx: place(points.at(-1)).split(",")[0], cy: place(points.at(-1)).split(",")[1], r: 2.2 }));
}

/** Means of up to `width` neighbours; the ends of as many as there are, evenly. */
export function smoothed(points, width) {
  const reach = Math.floor(width / 2);
  return points.map(([x], i) => {
    const side = Math.min(reach, i, points.length - 1 - i);
    const near = points.slice(i - side, i + side + 1);
    return [x, near.reduce((sum, p) => sum + p[1], 0) / near.length];
  });
}

function drawn(one, place) {
  const line = (points) => points.map((p) => place(...p).map((v) => v.toFixed(1)).join(",")).join(" ");
  const dots = one.dots || one.points.length === 1 ? one.points : [];
  return svg("g", { class: `c${one.colour}` },
    one.band?.length > 1 && svg("polygon", { class: "band", points: `${line(one.band.map((b) => [b[0], b[2]]))} ${line([...one.band].reverse().map((b) => [b[0], b[1]]))}` }),
    one.raw?.length > 1 && svg("polyline", { class: "raw", points: line(one.raw) }),
    one.points.length > 1 && svg("polyline", { class: "line", points: line(one.points) }),
    dots.map((p) => svg("circle", { class: "dot", cx: place(...p)[0], cy: place(...p)[1], r: 3 })));
}

function ticks(low, high, count) {
  if (high - low < 1e-12) {
    const half = (Math.abs(low) > 1e-9 ? Math.abs(low) : 1) / 2;
    [low, high] = [low - half, high + half];
  }
  const raw = (high - low) / Math.max(1, count - 1);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= raw * 0.999);
  const found = [];
  for (let i = Math.floor(low / step + 1e-9); i <= Math.ceil(high / step - 1e-9); i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function most(values) {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

function lastWords(lines, label) {
  return lines.map((one) => h("span", { class: `value c${one.colour}` }, label(one.points.at(-1)[1]), " "));
}

function described(title, lines, label, xLabel) {
  const parts = lines.map((one) => `${one.name} from ${label(one.points[0][1])} at ${xLabel} ${number(one.points[0][0])} to ${label(one.points.at(-1)[1])} at ${number(one.points.at(-1)[0])}`);
  return `${title}: ${parts.join("; ")}. Arrow keys read the values.`;
}
