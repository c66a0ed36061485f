// What was said and what came back: texts, pictures, calls and results, all of it shown as text.

import { h } from "./dom.js";
import { duration, plain, failureOf } from "./words.js";

const FOLD_AFTER = 1400;
const FOLD_LINES = 24;

/** Texts and images of a message, in order. */
export function partsOf(parts, { code = false } = {}) {
  return parts.map((part) => ("image" in part ? picture(part.image) : textOf(part.text, code, part.left_out)));
}

/** What an agent thought, apart from what it said. */
export function thoughtOf(parts) {
  return parts?.length > 0 && h("details", { class: "thought", open: "" }, h("summary", {}, "thought"), partsOf(parts));
}

/** The text alone. */
export function wordsOf(parts) {
  return parts.map((part) => part.text ?? "[image]").join("");
}

function picture(place) {
  return h("a", { class: "picture", href: place, target: "_blank", rel: "noopener", "aria-label": "Image, in its full size" },
    h("img", { src: place, alt: "What the tool showed the agent", loading: "lazy", decoding: "async" }));
}

/** Text as it was written; long text behind a fold. */
export function textOf(text, code = false, leftOut = 0) {
  const kind = code ? "pre" : "p";
  const lines = text.split("\n");
  const rest = leftOut > 0 && h("p", { class: "faint" }, `[${leftOut.toLocaleString("en-US")} more characters are left out here; the ledger holds them]`);
  if (text.length <= FOLD_AFTER && lines.length <= FOLD_LINES) return h("div", { class: "text" }, h(kind, {}, text), rest);
  const start = lines.slice(0, FOLD_LINES).join("\n").slice(0, FOLD_AFTER);
  const shown = h(kind, {}, start);
  const more = h("button", { type: "button", class: "more", "aria-expanded": "false", onclick: unfold });
  const hidden = `${(text.length - start.length).toLocaleString("en-US")} more characters`;
  more.textContent = hidden;
  function unfold() {
    const open = more.getAttribute("aria-expanded") === "false";
    more.setAttribute("aria-expanded", String(open));
    shown.textContent = open ? text : start;
    more.textContent = open ? "less" : hidden;
  }
  return h("div", { class: "text folded" }, shown, more, rest);
}

/** A call as one would write it. */
export function callOf(call) {
  if (call.error !== null) {
    return h("div", { class: "call bad" }, h("pre", {}, h("code", {}, h("b", {}, "unreadable call"), call.name ? ` ${call.name}` : "")),
      h("p", { class: "why" }, call.error));
  }
  const names = Object.keys(call.arguments ?? {});
  const code = h("code", {}, h("b", {}, call.name), "(");
  names.forEach((name, i) => code.append(i ? ", " : "", h("span", { class: "argument" }, `${name}=`), valueOf(call.arguments[name])));
  code.append(")");
  return h("div", { class: "call" }, h("pre", {}, code));
}

/** An argument as it reads: text of several lines as a block. */
export function valueOf(value) {
  if (typeof value === "string" && value.includes("\n")) return `"""\n${value.replace(/\n+$/, "")}\n"""`;
  return JSON.stringify(value);
}

/** What came back of a call. */
export function resultOf(result) {
  const usual = result.status === "ok", bad = !usual && result.status !== "by_program";
  const empty = result.parts.length === 0 || (result.parts.length === 1 && result.parts[0].text === "");
  return h("div", { class: bad ? "result bad" : "result" },
    h("p", { class: "label" }, usual ? "result" : failureOf(result.status), result.final && " \u00b7 ends the episode", result.truncated && " \u00b7 cut to its limit",
      result.duration_s ? h("span", { class: "faint" }, ` ${duration(result.duration_s)}`) : null),
    empty ? h("p", { class: "faint" }, "[nothing]") : partsOf(result.parts, { code: true }));
}

/** A message of the opening, or an answer of the world. */
export function messageOf(message) {
  const body = partsOf(message.parts, {});
  const long = message.role === "system";
  return long
    ? h("details", { class: `message ${message.role}` }, h("summary", {}, "system message"), body)
    : h("div", { class: `message ${message.role}` }, h("p", { class: "label" }, plain(message.role)), body);
}
