// The list of runs: how far each is, how well it does, what it came to on held-out tasks; and curves of several in one.

import { lineChart, smoothed, sparkline } from "./chart.js";
import { fill, h } from "./dom.js";
import { go, link, replaceQuery } from "./address.js";
import { source } from "./source.js";
import { ago, number, percent, plain } from "./words.js";

const MAX_CURVES = 5; // as many as there are colours
const RUN_COLUMNS = [
  ["name", "Run", (run) => run.name.toLowerCase()], ["held_out", "Held out", (run) => run.same_tasks?.at(-1)?.headline.value],
  ["success", "Success", (run) => run.validation ?? run.last?.success], ["step", "Progress", (run) => run.step / run.steps || null],
  ["tasks", "Tasks", (run) => run.tasks], ["episodes", "Episodes", (run) => run.episodes], ["updated", "Updated", (run) => run.updated],
];
const COLUMN_CLASSES = { step: "steps", tasks: "tasks", episodes: "episode-count" };

/** Builds the view; `query` holds the filter, the order, the chosen runs and the metric of their curves. */
export async function runsView(query) {
  const state = { text: "", sort: "updated", ascending: "", runs: "", metric: "", results: "", ...query };
  const chosen = new Set(state.runs.split(",").filter(Boolean));
  const head = h("tr"), body = h("tbody"), overlay = h("section", { class: "overlay", "aria-label": "Curves of the chosen runs" });
  const results = h("details", { class: "results", open: Boolean(state.results), ontoggle: () => Boolean(state.results) !== results.open && change({ results: results.open ? "true" : "" }) });
  const note = h("p", { class: "facts", role: "status" });
  const search = h("input", { type: "search", placeholder: "Name, tasks, agent, note", "aria-label": "Name, tasks, agent or note contains", value: state.text, oninput: () => change({ text: search.value }) });
  let runs = [], timer;
  async function refresh() {
    runs = await source.runs();
    draw();
    if (!overlay.matches(":hover") && !overlay.contains(document.activeElement)) await drawOverlay();
    clearTimeout(timer);
    if (runs.some((run) => run.lacking || run.unread)) timer = setTimeout(refresh, 100);
  }
  function change(values) {
    Object.assign(state, values, { runs: [...chosen].join(",") });
    replaceQuery([], { ...state, sort: state.sort === "updated" ? "" : state.sort });
    draw();
  }
  function draw() {
    const value = RUN_COLUMNS.find(([name]) => name === state.sort)?.[2] ?? ((run) => run.updated);
    const has = (run) => [run.name, run.key, run.tasks, run.policy, run.estimator, run.note].some((word) => word?.toLowerCase().includes(state.text.toLowerCase()));
    const shown = runs.filter(has).sort((a, b) => inOrder(value(a), value(b), state.ascending ? 1 : -1));
    const focused = document.activeElement?.dataset?.focus;
    fill(head, h("th", { scope: "col" }, h("span", { class: "sr" }, "Curves")), RUN_COLUMNS.map(([name, label]) => h("th", { scope: "col", class: COLUMN_CLASSES[name], "aria-sort": state.sort === name ? (state.ascending ? "ascending" : "descending") : null },
      h("button", { type: "button", class: "sort", "data-focus": `sort ${name}`, onclick: () => change({ sort: name, ascending: state.sort === name ? (state.ascending ? "" : "true") : ["name", "tasks"].includes(name) ? "true" : "" }) }, label, state.sort === name ? (state.ascending ? " \u2191" : " \u2193") : ""))));
    fill(body, shown.map((run) => row(run, chosen.has(run.key), (event) => choose(run.key, event.target.checked))));
    drawResults(results, shown);
    const among = shown.length < runs.length ? `${shown.length} of ${runs.length} runs` : `${runs.length} run${runs.length === 1 ? "" : "s"}`;
    note.textContent = runs.length ? `${among}. Tick runs to see their curves in one chart.` : "No runs here yet. One appears as soon as it writes its first file.";
    if (focused) body.parentElement.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }
  function choose(key, on) {
    chosen[on ? "add" : "delete"](key);
    change({});
    drawOverlay();
  }
  async function drawOverlay() {
    const keys = [...chosen].filter((key) => runs.some((run) => run.key === key));
    const drawn = await Promise.all(keys.slice(0, MAX_CURVES).map((key) => source.run(key)));
    if (keys.join() !== [...chosen].filter((key) => runs.some((run) => run.key === key)).join()) return; // others were chosen meanwhile
    if (!drawn.length) return void fill(overlay);
    const metrics = [...new Set(drawn.flatMap((run) => Object.entries(run.curves).flatMap(([phase, curves]) => Object.keys(curves).map((name) => `${phase}/${name}`))))].sort();
    const metric = [state.metric, "validation/success", "train/success", "train/reward"].find((name) => metrics.includes(name)) ?? metrics[0];
    const select = h("select", { "aria-label": "Metric", onchange: () => { change({ metric: select.value }); drawOverlay(); } }, metrics.map((name) => h("option", { value: name, selected: name === metric }, name)));
    const points = (run) => { const [phase, ...name] = (metric ?? "/").split("/"); return run.curves[phase]?.[name.join("/")] ?? []; };
    const series = drawn.map((run, i) => ({ name: legendNames(drawn)[i], points: smoothed(points(run), Math.max(1, Math.floor(points(run).length / 25)) | 1), colour: i + 1, dots: points(run).length < 30 }));
    fill(overlay, h("div", { class: "filters" }, h("label", {}, "Curves of ", metric ? select : "the chosen runs"), h("button", { type: "button", class: "plain", onclick: () => { chosen.clear(); change({}); drawOverlay(); } }, "Clear"),
      keys.length > MAX_CURVES && h("span", { class: "faint" }, `The first ${MAX_CURVES} of ${keys.length} chosen runs are drawn.`)),
      lineChart({ title: metric ?? "", share: /(^|\/)(success|calls_ok)$/.test(metric ?? ""), series }) ?? h("p", { class: "empty" }, "These runs have logged no curves."));
  }
  function move(by) {
    const links = [...body.querySelectorAll("a[data-key]")];
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    links[Math.min(Math.max((at < 0 ? (by > 0 ? -1 : 1) : at) + by, 0), links.length - 1)].focus();
  }
  await refresh();
  return {
    title: "Runs",
    refresh,
    keys: [
      { keys: ["j", "ArrowDown"], told: "next run", act: () => move(1) },
      { keys: ["k", "ArrowUp"], told: "previous run", act: () => move(-1) },
      { keys: ["Enter"], told: "open it", act: () => document.activeElement.dataset?.key && go(["run", document.activeElement.dataset.key]) },
      { keys: ["x"], told: "its curves too", act: () => document.activeElement.dataset?.key && choose(document.activeElement.dataset.key, !chosen.has(document.activeElement.dataset.key)) },
      { keys: ["/"], told: "filter", act: () => search.focus() },
    ],
    element: h("div", { class: "view" }, h("h1", {}, "Runs"), h("div", { class: "filters" }, search), note, overlay,
      h("div", { class: "scroll" }, h("table", { class: "runs" }, h("thead", {}, head), body)), results),
  };
}

/** Names to tell runs apart in a legend: the keys where two runs have one name. */
function legendNames(runs) {
  return runs.map((run) => (runs.some((other) => other !== run && other.name === run.name) ? run.key : run.name));
}

function inOrder(a, b, way) {
  const [none, other] = [a === null || a === undefined, b === null || b === undefined];
  if (none || other) return none - other;
  return a === b ? 0 : way * (a < b ? -1 : 1);
}

function row(run, isChosen, onChoose) {
  const box = h("td", {}, h("input", { type: "checkbox", checked: isChosen, onchange: onChoose, "data-focus": `box ${run.key}`, "aria-label": `Curves of ${run.key}` }));
  const name = h("th", { scope: "row" }, h("a", { href: link(["run", run.key]), "data-key": run.key, "data-focus": `run ${run.key}` }, run.name),
    h("span", { class: "under" }, run.unread ? "is being read\u2026" : run.broken ?? [run.key === run.name ? null : run.key, run.estimator, run.policy].filter(Boolean).join(" \u00b7 ")), run.note && h("span", { class: "under run-note", title: run.note }, run.note));
  if (run.broken || run.unread) return h("tr", { class: "broken" }, h("td"), name, h("td", { colspan: "5" }), h("td", {}, ago(run.updated)));
  const success = run.validation ?? run.last.success;
  return h("tr", {}, box, name, h("td", { class: "num" }, heldOut(run)),
    h("td", { class: "with-spark" }, run.spark.length > 1 && sparkline(run.spark, `Success while training, now ${percent(success)}`), h("b", {}, percent(success))),
    h("td", { class: "steps" }, progress(run)), h("td", { class: "tasks" }, run.tasks ?? "\u2013"),
    h("td", { class: "num episode-count" }, number(run.episodes + run.lacking)),
    h("td", { class: "when" }, run.live ? h("span", { class: "badge live" }, "live") : "", " ", ago(run.updated)));
}

/** A table of runs and task sets: success with its interval in the newest evaluation of each. */
function drawResults(element, runs) {
  const rows = runs.filter((run) => run.results?.length);
  const sets = [...new Set(rows.flatMap((run) => run.results.map((one) => one.set)))].sort();
  element.hidden = rows.length < 2;
  const of = (run, set) => run.results.find((one) => one.set === set);
  const usual = new Map(sets.map((set) => [set, mostFrequent(rows.map((run) => of(run, set)?.manifest).filter(Boolean))]));
  const best = (set) => Math.max(...rows.map((run) => of(run, set)).filter((one) => one?.manifest === usual.get(set)).map((one) => one.success.value));
  const cell = (run, set) => {
    const one = of(run, set);
    if (!one) return h("td", { class: "faint" }, "\u2013");
    const comparable = one.manifest === usual.get(set), { value, low, high } = one.success;
    return h("td", { title: `${one.label}, ${one.tasks} tasks` }, h(comparable && value === best(set) ? "b" : "span", {}, percent(value)), h("span", { class: "faint" }, ` ${percent(low)} to ${percent(high)}`),
      !comparable && h("span", { class: "under" }, `other tasks: ${one.tasks}`));
  };
  fill(element, h("summary", {}, `Results of ${rows.length} runs on ${sets.length} task set${sets.length === 1 ? "" : "s"}`),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Run"), sets.map((set) => h("th", { scope: "col" }, set)))),
      h("tbody", {}, rows.map((run) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: link(["run", run.key]) }, run.key)), sets.map((set) => cell(run, set))))))),
    h("p", { class: "faint" }, "The newest evaluation of each, with its 95 % interval. The highest of those that played the same tasks is bold."));
}

function mostFrequent(words) {
  const counts = new Map();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

function progress(run) {
  if (!run.steps) return h("span", { class: "faint" }, run.phase ? plain(run.phase) : "\u2013");
  return h("span", { class: "progress" }, h("progress", { max: run.steps, value: run.step, "aria-label": "Steps done" }),
    h("span", {}, `${number(run.step)} / ${number(run.steps)}`));
}

/** Success in each evaluation of the compared tasks, oldest first, and how many other evaluations there are. */
function heldOut(run) {
  if (!run.same_tasks.length) return "\u2013";
  const others = run.evaluated - run.same_tasks.length;
  return [run.same_tasks.map((one, i) => [i > 0 && h("span", { class: "faint" }, " \u2192 "), h(i < run.same_tasks.length - 1 ? "span" : "b", { class: i < run.same_tasks.length - 1 ? "faint" : null, title: one.label }, percent(one.headline.value))]),
    others > 0 && h("span", { class: "under" }, `and ${others} other${others === 1 ? "" : "s"}`)];
}
