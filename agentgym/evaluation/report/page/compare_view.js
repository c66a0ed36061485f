// Two episodes of one task side by side: the same turns beside each other, what differs marked, and where they parted.

import { callOf, messageOf, partsOf, resultOf, thoughtOf, valueOf, wordsOf } from "./content.js";
import { alignedTurns, alike, differingWords } from "./difference.js";
import { fill, h } from "./dom.js";
import { heatLegend, heatScale, heated } from "./heat.js";
import { go, link } from "./address.js";
import { headOf, rewardsOf } from "./episode_view.js";
import { source } from "./source.js";
import { failureOf, signed, verdictOf } from "./words.js";

/** Builds the view of two episodes by their ids. */
export async function compareView(key, a, b) {
  const [left, right] = await Promise.all([source.episode(key, a), source.episode(key, b)]);
  const scale = heatScale([left, right].map((one) => one.turns.map((turn) => turn.credit)));
  const pairs = alignedTurns(left.turns, right.turns);
  const parted = pairs.findIndex(([i, j]) => i === null || j === null || !alike(left.turns[i], right.turns[j]));
  let [at, folded] = [Math.max(0, parted), pairs.length > 40];
  const body = h("ol", { class: "pairs" });
  function draw() {
    fill(body, pairs.map(([i, j], place) => pairOf(left.turns[i], right.turns[j], scale, place === parted, folded)));
  }
  function point(by) {
    const found = [...body.querySelectorAll(":scope > li.differs")];
    if (!found.length) return;
    at = Math.min(Math.max(at + by, 0), found.length - 1);
    found[at].scrollIntoView({ block: "start" });
    found[at].focus({ preventScroll: true });
  }
  at = -1;
  draw();
  const same = left.task.id === right.task.id;
  const told = !same ? "These are episodes of two different tasks."
    : parted < 0 ? "The two episodes did exactly the same."
    : parted === 0 ? "They differ from the first turn." : `The first ${parted === 1 ? "turn is" : `${parted} turns are`} the same; they part at turn ${parted + 1}.`;
  const chooser = (episode, name) => h("label", { class: "compare" }, "this side ", h("select", { onchange: (event) => go(["run", key, "compare"], { a, b, [name]: event.target.value }) },
    episode.same_task.map((other) => h("option", { value: other.id, selected: other.id === episode.id }, `${other.run} #${other.sample}: ${verdictOf(other.verdict).words}`))));
  return {
    title: "Compare",
    keys: [
      { keys: ["j", "ArrowDown"], told: "next difference", act: () => point(1) },
      { keys: ["k", "ArrowUp"], told: "previous difference", act: () => point(-1) },
      { keys: ["s"], told: "the other way round", act: () => go(["run", key, "compare"], { a: b, b: a }) },
      { keys: ["f"], told: "fold turns that are the same", act: () => { folded = !folded; draw(); } },
      { keys: ["Escape", "u"], told: "back to the episode", act: () => go(["run", key, "episode", a]) },
    ],
    element: h("div", { class: "view comparing" },
      h("div", { class: "sides" }, [[left, "a"], [right, "b"]].map(([episode, name]) => h("section", { class: "side", "aria-label": name === "a" ? "Left" : "Right" }, headOf(episode, key),
        h("p", { class: "row" }, h("a", { href: link(["run", key, "episode", episode.id]) }, "open"), chooser(episode, name))))),
      h("div", { class: "told" }, h("p", { class: "facts", role: "status" }, told), h("p", { class: "faint" }, h("mark", {}, "marked"), " is what only one side has"), heatLegend(scale)),
      h("section", { class: "opening", "aria-label": "What was asked" }, left.opening.map(messageOf)),
      body),
  };
}

function pairOf(one, two, scale, parted, folded) {
  const same = one && two && alike(one, two);
  const kind = same ? "same" : "differs";
  if (same && folded) return h("li", { class: `pair ${kind}` }, h("p", { class: "faint" }, `Turn ${one.index + 1}: the same on both sides`));
  return h("li", { class: `pair ${kind}`, tabindex: "-1" }, parted && h("p", { class: "parted" }, "Here they part"),
    h("div", { class: "sides" }, half(one, two, scale), half(two, one, scale)));
}

function half(turn, other, scale) {
  if (!turn) return h("div", { class: "turn missing" }, h("p", { class: "faint" }, "no such turn"));
  const { class: kind, vars } = heated(turn.credit, scale);
  return h("div", { class: `turn ${kind}`, vars },
    h("div", { class: "turn-head" }, h("span", { class: "n" }, `Turn ${turn.index + 1}`), turn.credit !== null && h("span", { class: "credit" }, "credit ", h("b", {}, signed(turn.credit))),
      rewardsOf(turn.rewards), turn.failures.map((kind) => h("span", { class: "chip down" }, failureOf(kind)))),
    thoughtOf(turn.thought),
    other ? marked(wordsOf(turn.parts), wordsOf(other.parts), "p") : partsOf(turn.parts),
    turn.calls.map((call, i) => [
      other?.calls[i] && call.error === null ? h("div", { class: "call" }, marked(asText(call), asText(other.calls[i]), "pre")) : callOf(call),
      turn.results[i] && (other?.results[i] ? returned(turn.results[i], other.results[i]) : resultOf(turn.results[i])),
    ]));
}

function returned(result, other) {
  const found = h("div", { class: result.status === "ok" ? "result" : "result bad" }, h("p", { class: "label" }, result.status === "ok" ? "result" : failureOf(result.status)));
  if (result.parts.some((part) => "image" in part)) return resultOf(result);
  found.append(marked(wordsOf(result.parts) || "[nothing]", wordsOf(other.parts) || "[nothing]", "pre"));
  return found;
}

function asText(call) {
  return `${call.name}(${Object.entries(call.arguments ?? {}).map(([name, value]) => `${name}=${valueOf(value)}`).join(", ")})`;
}

function marked(text, other, kind) {
  if (!text) return null;
  return h("div", { class: "text" }, h(kind, {}, differingWords(text, other)[0].map(([piece, how]) => (how === "same" ? piece : h("mark", {}, piece)))));
}
