// One episode as a conversation, with the credit of every turn, its group beside it, and its tokens.

import { callOf, messageOf, partsOf, resultOf, textOf, thoughtOf, valueOf } from "./content.js";
import { fill, h } from "./dom.js";
import { heatLegend, heatScale, heatStrip, heated } from "./heat.js";
import { go, link, replaceQuery } from "./address.js";
import { noteBox } from "./note_box.js";
import { source } from "./source.js";
import { tokenView } from "./tokens.js";
import { duration, number, failureOf, failuresOf, plain, signed, twoDecimals, verdictOf } from "./words.js";

/** Builds the view; `query` holds the filters of the list one came from, and which tab and turn. */
export async function episodeView(key, id, query) {
  let [episode, note] = await Promise.all([source.episode(key, id), noteBox(key, id)]);
  bySample();
  let scale = 1;
  let active = Math.min(Number(query.turn ?? 0) || 0, Math.max(0, episode.turns.length - 1));
  let tab = query.tab === "tokens" ? "tokens" : "turns";
  const rail = h("nav", { class: "rail", "aria-label": "Turns and group" });
  const main = h("div", { class: "conversation", role: "tabpanel", id: "panel" });
  const top = h("header", { class: "episode-head" });

  function bySample() {
    episode.group.sort((a, b) => a.sample - b.sample);
  }
  function draw() {
    const credits = [episode.turns.map((turn) => turn.credit), ...episode.group.map((one) => one.credit ?? [])];
    scale = heatScale(credits);
    fill(top, headOf(episode, key), note.element, tabs());
    drawRail();
    if (tab === "turns") drawTurns();
    else drawTokens();
  }
  function tabs() {
    const one = (name, label) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", "aria-selected": String(tab === name), onclick: () => show(name) }, label);
    main.setAttribute("aria-labelledby", `tab-${tab}`);
    return h("div", { class: "tabs" }, h("div", { role: "tablist" }, one("turns", "Conversation"), one("tokens", "Tokens")),
      episode.same_task.length > 1 && h("label", { class: "compare" }, "compare with ", h("select", { onchange: (event) => event.target.value && go(["run", key, "compare"], { a: id, b: event.target.value }) },
        h("option", { value: "" }, "another try\u2026"), episode.same_task.filter((other) => other.id !== id).map((other) => h("option", { value: other.id }, `${other.run} #${other.sample}: ${verdictOf(other.verdict).words}`)))));
  }
  function drawRail() {
    const known = episode.turns.some((turn) => turn.credit !== null);
    fill(rail,
      h("h2", {}, "Turns"),
      known ? heatLegend(scale) : h("p", { class: "faint small" }, "No credit was recorded: it is for episodes a trainer learnt from."),
      h("ol", { class: "turn-list" }, episode.turns.map((turn, i) => h("li", {}, h("button", { type: "button", class: i === active ? "active" : "", "aria-current": i === active ? "true" : null, onclick: () => point(i) },
        h("span", { class: "n" }, i + 1), h("span", { class: "what" }, turn.role && h("span", { class: "faint" }, `${turn.role}: `), turn.calls.map((call) => (call.error === null ? call.name : "unreadable")).join(", ") || "text"),
        turn.failures.length > 0 && h("span", { class: "trouble", title: turn.failures.map(failureOf).join(", ") }, "!"),
        h("span", heated(turn.credit, scale), turn.credit === null ? "" : signed(turn.credit)))))),
      episode.group.length > 1 && [
        h("h2", {}, `Group of ${episode.group.length}`),
        h("ul", { class: "group" }, episode.group.map((one) => h("li", {}, h("a", { href: link(["run", key, "episode", one.id], query), "aria-current": one.id === id ? "page" : null },
          h("span", { class: `dot ${verdictOf(one.verdict).kind}`, title: verdictOf(one.verdict).words }, verdictOf(one.verdict).sign), ` #${one.sample}`,
          heatStrip(one.credit ?? Array(one.turns).fill(null), scale, null))))),
      ]);
  }
  function drawTurns() {
    fill(main, h("section", { class: "opening", "aria-label": "What was asked" }, episode.opening.map(messageOf), toolsOf(episode.tools), truthOf(episode.task.truth)),
      h("ol", { class: "turns" }, episode.turns.map((turn, i) => [rowBefore(episode, i), turnOf(turn, scale, i === active, () => point(i))])),
      endOf(episode));
    showWritten();
  }
  /** Below each turn with an unreadable call, what the agent wrote, which its tokens alone tell. */
  async function showWritten() {
    const unreadable = episode.turns.filter((turn) => turn.tokens > 0 && turn.calls.some((call) => call.error !== null));
    const blocks = [...main.querySelectorAll(".turn")];
    if (!unreadable.length) return;
    const { spans, pieces } = await source.tokens(key, id);
    for (const turn of unreadable) {
      const written = spans.find((span) => span.kind === "turn" && span.turn === turn.index)?.ids.map((token) => pieces[token]);
      if (!written?.includes(undefined)) blocks[episode.turns.indexOf(turn)].append(h("div", { class: "written" }, h("p", { class: "label" }, "as the agent wrote it"), textOf(written.join(""), true)));
    }
  }
  async function drawTokens() {
    fill(main, h("p", { class: "empty" }, "Reading the tokens\u2026"));
    try {
      fill(main, tokenView(await source.tokens(key, id)));
    } catch (error) {
      fill(main, h("p", { class: "empty" }, error.message));
    }
  }
  function show(name) {
    tab = name;
    replaceQuery(["run", key, "episode", id], { ...query, tab: tab === "tokens" ? tab : "" });
    draw();
  }
  function point(index, scroll = true) {
    if (!episode.turns.length) return;
    if (tab !== "turns") show("turns");
    active = Math.min(Math.max(index, 0), episode.turns.length - 1);
    main.querySelectorAll(".turn").forEach((one, i) => one.classList.toggle("active", i === active));
    rail.querySelectorAll(".turn-list button").forEach((one, i) => {
      one.classList.toggle("active", i === active);
      if (i === active) one.setAttribute("aria-current", "true");
      else one.removeAttribute("aria-current");
    });
    const turn = main.querySelectorAll(".turn")[active];
    if (scroll) turn.scrollIntoView({ block: "start" });
    turn.focus({ preventScroll: true });
    const button = rail.querySelectorAll(".turn-list button")[active];
    const list = button.closest("ol");
    list.scrollTop = button.offsetTop - list.offsetTop - list.clientHeight / 2;
  }
  async function neighbour(by) {
    const { turn, tab: _tab, ...filters } = query;
    const found = await source.episodes(key, { ...filters, offset: 0, limit: 500 });
    const place = found.rows.findIndex((row) => row.id === id);
    const next = place < 0 ? undefined : found.rows[place + by];
    if (next) go(["run", key, "episode", next.id], filters);
  }
  function sibling(by) {
    const place = episode.group.findIndex((one) => one.id === id);
    const next = episode.group[place + by];
    if (next) go(["run", key, "episode", next.id], query);
  }
  async function refresh() {
    if (episode.stop !== null) return; // it ended: it does not change any more
    episode = await source.episode(key, id);
    bySample();
    draw();
  }
  draw();
  return {
    title: `${episode.task.id}#${episode.sample}`,
    version: episode.version,
    refresh,
    shown: () => query.turn && point(active),
    keys: [
      { keys: ["j", "ArrowDown"], told: "next turn", act: () => point(active + 1) },
      { keys: ["k", "ArrowUp"], told: "previous turn", act: () => point(active - 1) },
      { keys: ["n"], told: "next episode of the group", act: () => sibling(1) },
      { keys: ["p"], told: "previous episode of the group", act: () => sibling(-1) },
      { keys: ["]"], told: "next episode of the list", act: () => neighbour(1) },
      { keys: ["["], told: "previous episode of the list", act: () => neighbour(-1) },
      { keys: ["t"], told: "tokens or conversation", act: () => show(tab === "tokens" ? "turns" : "tokens") },
      { keys: ["Escape", "u"], told: "back to the list", act: () => go(["run", key, "episodes"], filtersOf(query)) },
      ...note.keys,
    ],
    element: h("div", { class: "view episode" }, top, h("div", { class: "columns" }, rail, main)),
  };
}

function filtersOf({ turn, tab, ...filters }) {
  return filters;
}

/** Which weights sampled an episode, of a training's steps: in an asynchronous run they may change while it is played. */
function weightsOf(turns) {
  const first = Math.min(...turns.map((turn) => turn.version)), last = Math.max(...turns.map((turn) => turn.last_version ?? turn.version));
  if (last === 0) return "";  // before a training, or outside of one
  return first === last ? `weights of step ${first}` : `weights of steps ${first} to ${last}`;
}

/** The line about an episode: its task, how it ended, what it was given. */
export function headOf(episode, key) {
  const { words, kind, sign } = verdictOf(episode.verdict);
  const facts = [
    episode.stop ? plain(episode.stop) : "still running", `${episode.turns.length} turn${episode.turns.length === 1 ? "" : "s"}`,
    episode.stop && duration(episode.duration_s), episode.credit_step !== null && `credit of step ${episode.credit_step}`,
    episode.turns.length && weightsOf(episode.turns),
  ].filter(Boolean);
  return h("div", { class: "summary" },
    h("p", { class: "crumb" }, h("span", { class: "faint" }, episode.run)),
    h("h1", {}, h("a", { href: link(["run", key, "episodes"], { task: episode.task.id }), title: "All episodes of this task" }, episode.task.id), h("span", { class: "faint" }, `#${episode.sample}`),
      h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, `${sign} `), words)),
    h("p", { class: "facts" }, facts.join(" \u00b7 "), " ", h("span", { class: "tags" }, episode.task.tags.map((tag) => h("span", { class: "tag" }, tag)))),
    h("p", { class: "chips" }, h("span", { class: "chip total" }, "reward ", h("b", {}, twoDecimals(episode.reward))), rewardsOf(episode.outcome, episode.weights),
      failuresOf(episode.failures).map((words) => h("span", { class: "chip down" }, words))));
}

/** Reward components by name, with their weights where those are not 1. */
export function rewardsOf(rewards, weights = {}) {
  return Object.entries(rewards).map(([name, value]) => {
    const pays = weights[name] !== 0;  // what does not is a measure, neither good nor bad
    return h("span", { class: `chip ${pays && value > 0 ? "up" : pays && value < 0 ? "down" : ""}` }, `${name} `, h("b", {}, pays ? signed(value) : number(value)),
      name in weights && weights[name] !== 1 ? h("span", { class: "faint" }, ` \u00d7${number(weights[name])}`) : null);
  });
}

/** What a further row begins with, before its first turn; nothing before any other turn. */
function rowBefore(episode, index) {
  const { row } = episode.turns[index];
  if (row === 0 || episode.turns.findIndex((turn) => turn.row === row) !== index) return null;
  const { opening, parent } = episode.rows[row - 1];
  const origin = parent === null ? "" : `, out of turn ${parent + 1}`;
  return h("li", { class: "row-opening" }, h("details", {}, h("summary", {}, `Row ${row + 1} begins${origin}`), opening.map(messageOf)));
}

/** One turn: what was said and called, what came back, what it earned, and its credit. */
export function turnOf(turn, scale, active, onPoint) {
  const { class: kind, vars } = heated(turn.credit, scale);
  return h("li", { class: `turn ${kind}${active ? " active" : ""}`, vars, tabindex: "-1", "aria-label": `Turn ${turn.index + 1}`, onclick: onPoint && (() => onPoint()) },
    h("div", { class: "turn-head" }, h("span", { class: "n" }, `Turn ${turn.index + 1}`),
      (turn.role || turn.row > 0) && h("span", { class: "faint" }, [turn.role, turn.row > 0 && `row ${turn.row + 1}`].filter(Boolean).join(", ")),
      turn.credit !== null && h("span", { class: "credit", title: "What the trainer multiplied the gradient of this turn's tokens by" }, "credit ", h("b", {}, signed(turn.credit))),
      rewardsOf(turn.rewards), turn.failures.map((kind) => h("span", { class: "chip down" }, failureOf(kind))),
      h("span", { class: "measures faint" }, measuresOf(turn))),
    thoughtOf(turn.thought), partsOf(turn.parts),
    turn.calls.map((call, i) => [callOf(call), turn.results[i] && resultOf(turn.results[i])]),
    turn.results.slice(turn.calls.length).map(resultOf),
    turn.replies.map(messageOf),
    turn.finish === "length" && h("p", { class: "faint" }, "[cut: a budget ended the message]"));
}

function measuresOf(turn) {
  return [
    turn.tokens && `${number(turn.tokens)} tokens`, turn.logprob !== null && `mean log-prob ${number(turn.logprob)}`,
    turn.value !== null && `value ${number(turn.value)}`, turn.potential !== null && `progress ${number(turn.potential)}`,
    turn.generate_s && `said in ${duration(turn.generate_s)}`, turn.tools_s && `tools ${duration(turn.tools_s)}`,
  ].filter(Boolean).join(" \u00b7 ");
}

const prettyJson = (value) => h("pre", {}, typeof value === "string" ? value : JSON.stringify(value, null, 1));

/** What the agent was told of its tools. */
function toolsOf(tools) {
  if (!tools?.length) return null;
  return h("details", { class: "message tools" }, h("summary", {}, `${tools.length} tool${tools.length === 1 ? "" : "s"}: ${tools.map((tool) => tool.name).join(", ")}`),
    tools.map((tool) => h("section", {}, h("h3", {}, h("code", {}, tool.name)), textOf(tool.description ?? ""), prettyJson(tool.parameters))));
}

/** What is right, before the turns are read. */
function truthOf(truth) {
  if (truth === null) return null;
  return h("details", { class: "message truth", open: true }, h("summary", {}, "truth"), textOf(typeof truth === "string" ? truth : JSON.stringify(truth, null, 1), true),
    h("p", { class: "faint" }, "It is for judges: neither the agent nor its tools see it."));
}

function endOf(episode) {
  const table = (data) => h("dl", { class: "facts-list" }, Object.entries(data).map(([name, value]) => h("div", {}, h("dt", {}, plain(name)), h("dd", {}, typeof value === "object" ? valueOf(value) : typeof value === "number" ? number(value) : String(value)))));
  return h("section", { class: "end", "aria-label": "How it ended" },
    h("p", { class: "stop" }, episode.stop ? `Ended: ${plain(episode.stop)}${episode.provenance.hopeless ? ` (${episode.provenance.hopeless})` : ""}` : "Still running\u2026"),
    episode.error && h("p", { class: "notice" }, episode.error),
    h("details", {}, h("summary", {}, "Parameters of the task"), prettyJson(episode.task.parameters)),
    h("details", {}, h("summary", {}, "What it took, and what made it"), table({ seed: String(episode.seed), ...episode.usage }), table(episode.provenance)));
}
