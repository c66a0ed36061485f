// The episodes of a run: narrowed, sorted, and only as many in the page as fit the window, however many there are.

import { fill, h } from "./dom.js";
import { go, link, replaceQuery } from "./address.js";
import { source } from "./source.js";
import { duration, number, failureOf, failuresOf, plain, twoDecimals, verdictOf } from "./words.js";

const ROW = 32; // pixels, as in the style sheet
const PAGE = 200;
const MARGIN = 12; // rows beyond the window that are kept
const CHOICES = ["", "solved", "unsolved", "truncated", "failed", "running"];
const COLUMNS = [
  ["episode", "#"], ["task", "Task"], ["success", "Outcome"], ["reward", "Reward"], ["turns", "Turns"],
  ["tokens", "Tokens"], ["duration_s", "Time"], ["stop", "Stopped"], ["", "What went wrong"],
];

/** Builds the view; `query` holds the filters, the order and the marked episode. */
export async function episodesView(key, query) {
  const state = { only: "", phase: "", failure: "", tag: "", task: "", run: "", text: "", sort: "episode", descending: "", held: source.alone ? "true" : "", ...query };
  const pages = new Map();
  let [total, active, generation, drawnFrom, marked] = [0, 0, 0, 0, null];
  const body = h("tbody");
  const told = h("p", { class: "facts", role: "status" });
  const frame = h("div", { class: "list", tabindex: "-1" });
  const head = h("thead");
  const table = h("table", { class: "episodes" }, head, body);
  frame.append(table);
  const choices = h("div", { class: "choices", role: "group", "aria-label": "Outcome" });
  const phase = h("select", { "aria-label": "Phase", onchange: (event) => narrow({ phase: event.target.value }) });
  const failure = h("select", { "aria-label": "What went wrong", onchange: (event) => narrow({ failure: event.target.value }) });
  const tag = h("select", { "aria-label": "Tag of the task", onchange: (event) => narrow({ tag: event.target.value }) });
  const tagged = h("label", {}, "of ", tag);
  const search = h("input", { type: "search", placeholder: "Task or id", "aria-label": "Task or id contains", value: state.text, oninput: () => { clearTimeout(search.timer); search.timer = setTimeout(() => narrow({ text: search.value }), 60); } });
  const held = source.alone && h("label", {}, h("input", { type: "checkbox", checked: Boolean(state.held), onchange: (event) => narrow({ held: event.target.checked ? "true" : "" }) }), " only those in this file");
  const markedTold = h("span", { class: "marked", role: "status" });

  function asked() {
    return { only: state.only, phase: state.phase, failure: state.failure, tag: state.tag, task: state.task, run: state.run, text: state.text, sort: state.sort, descending: state.descending, held: state.held };
  }
  async function fetchPage(index) {
    if (pages.has(index)) return;
    pages.set(index, null);
    const mine = generation;
    const found = await source.episodes(key, { ...asked(), offset: index * PAGE, limit: PAGE });
    if (mine !== generation) return;
    pages.set(index, found.rows);
    take(found);
    draw();
  }
  function take(found) {
    total = found.total;
    const facets = found.facets;
    fill(choices, CHOICES.map((name) => h("button", { type: "button", "aria-pressed": String(state.only === name), onclick: () => narrow({ only: name }) },
      name ? verdictOf(name).words : "all", name ? h("span", { class: "count" }, number(facets.only?.[name] ?? 0)) : null)));
    options(phase, "every phase", facets.phase ?? {}, state.phase, plain);
    options(failure, "anything", facets.failure ?? {}, state.failure, failureOf);
    options(tag, "any tag", facets.tag ?? {}, state.tag, String);
    tagged.hidden = tag.options.length < 2;
    const lacking = found.lacking ? `; ${number(found.lacking)} more are being read` : "";
    const left = found.left_out ? `; ${number(found.left_out)} more are in the ledger alone` : "";
    told.textContent = `${number(total)} of ${number(found.all)} episodes${lacking}${left}`;
    if (found.lacking) setTimeout(() => refresh(), 50);
  }
  async function refresh() {
    generation += 1;
    const mine = generation;
    const first = Math.floor(top() / PAGE);
    const found = await source.episodes(key, { ...asked(), offset: first * PAGE, limit: PAGE });
    if (mine !== generation) return;
    pages.clear();
    pages.set(first, found.rows);
    take(found);
    active = Math.min(active, Math.max(0, total - 1));
    draw();
    return found.version;
  }
  function narrow(change) {
    Object.assign(state, change);
    replaceQuery(["run", key, "episodes"], { ...state, sort: state.sort === "episode" ? "" : state.sort });
    active = 0;
    frame.scrollTop = 0;
    drawHead();
    return refresh();
  }
  function sortBy(name) {
    const turned = state.sort === name ? (state.descending ? "" : "true") : ["task", "episode", "stop"].includes(name) ? "" : "true";
    narrow({ sort: name, descending: turned });
  }
  function drawHead() {
    fill(head, h("tr", {}, COLUMNS.map(([name, label]) => h("th", { scope: "col", "aria-sort": name && state.sort === name ? (state.descending ? "descending" : "ascending") : null },
      name ? h("button", { type: "button", class: "sort", onclick: () => sortBy(name) }, label, state.sort === name ? (state.descending ? " \u2193" : " \u2191") : "") : label))));
  }
  function top() {
    return Math.max(0, Math.floor(frame.scrollTop / ROW) - MARGIN);
  }
  function scrolled() {
    if (Math.abs(top() - drawnFrom) >= MARGIN / 2) draw(); // the rows at hand reach further than the window
  }
  function draw() {
    if (!frame.isConnected) return; // nobody sees it yet, and how many rows fit is not known: `shown` draws them
    const from = (drawnFrom = top());
    const until = Math.min(total, from + Math.ceil((frame.clientHeight || 800) / ROW) + 2 * MARGIN);
    table.setAttribute("aria-rowcount", String(total + 1));
    const focused = body.contains(document.activeElement);
    const shown = [];
    for (let i = from; i < until; i++) {
      const rows = pages.get(Math.floor(i / PAGE));
      if (rows === undefined) fetchPage(Math.floor(i / PAGE));
      shown.push(rows?.[i % PAGE] ? row(rows[i % PAGE], i) : h("tr", { class: "waiting", "aria-rowindex": String(i + 2) }, h("td", { colspan: String(COLUMNS.length) }, "\u2026")));
    }
    fill(body, space(from), shown, space(total - until));
    if (!total) fill(body, h("tr", {}, h("td", { colspan: String(COLUMNS.length), class: "empty" }, "No episode is like this.")));
    if (focused) body.querySelector("tr.active a")?.focus({ preventScroll: true });
  }
  function space(rows) {
    const filler = h("tr", { class: "space", "aria-hidden": "true" }, h("td", { colspan: String(COLUMNS.length) }));
    filler.firstChild.style.height = `${rows * ROW}px`;
    return rows > 0 ? filler : null;
  }
  function row(one, index) {
    const { words, kind, sign } = verdictOf(one.verdict);
    const wrong = failuresOf(one.failures).map((words) => h("span", { class: "failure" }, words));
    const dim = source.alone && !source.holds(one.id);
    return h("tr", { class: `${index === active ? "active" : ""}${marked === one.id ? " marked" : ""}${dim ? " dim" : ""}`, "aria-rowindex": String(index + 2), "aria-current": index === active ? "true" : null, onclick: (event) => !event.target.closest("a") && point(index) },
      h("td", { class: "num faint" }, number(one.episode)),
      h("td", { class: "task" }, h("a", { href: link(["run", key, "episode", one.id], state), tabindex: index === active ? "0" : "-1", title: one.shown }, one.task, one.sample ? `#${one.sample}` : ""), h("span", { class: "faint" }, ` ${one.run}`)),
      h("td", {}, h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, `${sign} `), words)),
      h("td", { class: "num" }, one.stop === null ? "\u2013" : twoDecimals(one.reward)), h("td", { class: "num" }, number(one.turns)), h("td", { class: "num" }, one.tokens ? number(one.tokens) : "\u2013"),
      h("td", { class: "num" }, one.stop === null ? "\u2013" : duration(one.duration_s)), h("td", {}, one.stop === null ? h("span", { class: "badge live" }, "running") : plain(one.stop)), h("td", { class: "wrong", title: failuresOf(one.failures).join(", ") }, wrong));
  }
  function at(index) {
    return pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }
  function point(index) {
    active = Math.min(Math.max(index, 0), Math.max(0, total - 1));
    const [above, below] = [active * ROW, (active + 1) * ROW + ROW - frame.clientHeight];
    if (frame.scrollTop > above) frame.scrollTop = above;
    if (frame.scrollTop < below) frame.scrollTop = below;
    draw();
    body.querySelector("tr.active a")?.focus({ preventScroll: true });
  }
  function mark() {
    const one = at(active);
    if (!one) return;
    if (marked && marked !== one.id) return go(["run", key, "compare"], { a: marked, b: one.id });
    marked = marked === one.id ? null : one.id;
    markedTold.textContent = marked ? `Marked ${one.shown}: press x on another to compare` : "";
    draw();
  }
  frame.addEventListener("scroll", () => requestAnimationFrame(scrolled), { passive: true });
  drawHead();
  const version = await refresh();
  const exact = ["task", "run"].filter((name) => state[name]).map((name) => h("button", { type: "button", class: "plain", onclick: (event) => { event.target.remove(); narrow({ [name]: "" }); } }, `${name}: ${state[name]} \u00d7`));
  return {
    title: "Episodes",
    version,
    refresh,
    shown: draw,
    keys: [
      { keys: ["j", "ArrowDown"], told: "next episode", act: () => point(active + 1) },
      { keys: ["k", "ArrowUp"], told: "previous episode", act: () => point(active - 1) },
      { keys: ["PageDown"], told: "a page down", act: () => point(active + 20) },
      { keys: ["PageUp"], told: "a page up", act: () => point(active - 20) },
      { keys: ["Home"], told: "the first", act: () => point(0) },
      { keys: ["End"], told: "the last", act: () => point(total - 1) },
      { keys: ["Enter"], told: "open it", act: () => at(active) && go(["run", key, "episode", at(active).id], state) },
      { keys: ["x"], told: "mark it, then compare with another", act: mark },
      { keys: ["/"], told: "search", act: () => search.focus() },
      { keys: ["a", "s", "f"], told: "all, solved, failed ones", act: (event) => narrow({ only: { a: "", s: "solved", f: "failed" }[event.key] }) },
    ],
    element: h("div", { class: "view listing" }, h("div", { class: "filters" }, choices, h("label", {}, "in ", phase), tagged, h("label", {}, "with ", failure), search, held, exact),
      h("div", { class: "told" }, told, markedTold), frame),
  };
}

function options(select, none, counts, chosen, words) {
  const names = Object.keys(counts);
  if (chosen && !names.includes(chosen)) names.push(chosen);
  fill(select, h("option", { value: "" }, none), names.map((name) => h("option", { value: name }, `${words(name)} (${number(counts[name] ?? 0)})`)));
  select.value = chosen;
}
