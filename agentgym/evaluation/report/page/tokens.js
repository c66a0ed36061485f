// The tokens as the trainer sees them: what the loss covers, and how likely each was when it was sampled.

import { fill, h } from "./dom.js";
import { number, percent } from "./words.js";

const AT_ONCE = 4000; // tokens of one span that are shown before one asks for the rest
const LEVELS = [0.9, 0.7, 0.5, 0.3, 0.1]; // below each, one colour further

/** A panel with every token. `data`: spans and pieces, see the server. */
export function tokenView(data) {
  const total = data.spans.reduce((sum, span) => sum + span.ids.length, 0);
  if (!total) return h("p", { class: "empty" }, "No tokens were kept: the policy that played gave text, as a script or an API does.");
  const own = data.spans.filter((span) => span.kind === "turn").reduce((sum, span) => sum + span.ids.length, 0);
  const known = data.spans.some((span) => span.logprobs);
  const readout = h("p", { class: "readout", role: "status" }, "Point at a token, or step through them with \u2190 and \u2192.");
  const body = h("div", { class: "tokens", tabindex: "0", role: "group", "aria-label": "Tokens; arrow keys step through them" }, data.spans.map((span, i) => block(span, i)));
  let chosen = null;
  function block(span, index) {
    const text = h("p", { class: span.kind === "turn" ? "stream own" : "stream masked" });
    const told = span.kind === "prompt" ? "prompt" : span.kind === "turn" ? `turn ${span.turn + 1}` : `observation after turn ${span.turn + 1}`;
    const more = h("button", { type: "button", class: "more", onclick: () => { pour(span, index, text, span.ids.length); more.remove(); } }, `all ${number(span.ids.length)} tokens`);
    pour(span, index, text, AT_ONCE);
    return h("section", { class: `span ${span.kind}`, "aria-label": told },
      h("h3", {}, told, h("span", { class: "faint" }, ` ${number(span.ids.length)} tokens \u00b7 ${span.kind === "turn" ? "in the loss" : "masked"}`)),
      text, span.ids.length > AT_ONCE && more);
  }
  function pour(span, index, text, most) {
    fill(text, span.ids.slice(0, most).map((id, i) => {
      const piece = data.pieces[id];
      const level = span.logprobs ? LEVELS.filter((p) => Math.exp(span.logprobs[i] ?? 0) < p).length : 0;
      return h("span", { class: `token p${level}${piece === undefined ? " bare" : ""}`, "data-at": `${index}.${i}` }, piece === undefined ? `${id} ` : piece.replaceAll("\n", "\u21b5\n"));
    }));
  }
  function choose(token) {
    chosen?.classList.remove("chosen");
    chosen = token;
    chosen.classList.add("chosen");
    const [index, i] = token.dataset.at.split(".").map(Number);
    const span = data.spans[index];
    const logprob = span.logprobs?.[i];
    fill(readout, h("b", {}, JSON.stringify(data.pieces[span.ids[i]] ?? "?")), `  id ${span.ids[i]}  \u00b7  `,
      span.kind === "turn" ? `turn ${span.turn + 1}, in the loss` : "masked: not the agent's own",
      logprob === undefined || logprob === null ? "" : `  \u00b7  log-probability ${number(logprob)}, probability ${percent(Math.exp(logprob), 1)}`);
  }
  body.addEventListener("pointerover", (event) => event.target.dataset?.at && choose(event.target));
  body.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    event.preventDefault();
    const all = [...body.querySelectorAll(".token")];
    const next = all[Math.min(Math.max(all.indexOf(chosen) + (event.key === "ArrowRight" ? 1 : -1), 0), all.length - 1)];
    choose(next);
    next.scrollIntoView({ block: "nearest" });
  });
  return h("div", { class: "token-view" },
    h("p", { class: "facts" }, `${number(total)} tokens, ${number(own)} of them the agent's own and in the loss. `,
      known ? h("span", { class: "scale" }, "Probability when sampled: ", LEVELS.map((p, i) => h("span", { class: `token p${i}` }, i ? `< ${percent(LEVELS[i - 1])}` : `\u2265 ${percent(p)}`)), h("span", { class: "token p5" }, `< ${percent(LEVELS.at(-1))}`)) : "No log-probabilities were kept.",
      Object.keys(data.pieces).length ? "" : " The run folder holds no tokenizer, so ids are shown."),
    readout, body);
}
