// The list of runs: how far each is, how well it does, and what it came to on held-out tasks.

import { sparkline } from "./chart.js";
import { fill, h } from "./dom.js";
import { go, link } from "./address.js";
import { source } from "./source.js";
import { ago, number, percent, plain } from "./words.js";

/** Builds the view. */
export async function runsView() {
  const body = h("tbody");
  const note = h("p", { class: "facts", role: "status" });
  let active = 0;
  async function refresh() {
    const runs = await source.runs();
    runs.sort((a, b) => b.updated - a.updated);
    const focused = body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    fill(body, runs.map(row));
    note.textContent = runs.length ? `${runs.length} run${runs.length === 1 ? "" : "s"}, the latest first` : "No runs here yet. One appears as soon as it writes its first file.";
    if (focused) body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
    if (runs.some((run) => run.lacking)) setTimeout(refresh, 400);
  }
  function move(by) {
    const links = [...body.querySelectorAll("a[data-key]")];
    if (!links.length) return;
    active = Math.min(Math.max((links.includes(document.activeElement) ? links.indexOf(document.activeElement) : by > 0 ? -1 : 1) + by, 0), links.length - 1);
    links[active].focus();
  }
  await refresh();
  return {
    title: "Runs",
    refresh,
    everyMs: 3000,
    keys: [
      { keys: ["j", "ArrowDown"], told: "next run", act: () => move(1) },
      { keys: ["k", "ArrowUp"], told: "previous run", act: () => move(-1) },
      { keys: ["Enter"], told: "open it", act: () => document.activeElement.dataset?.key && go(["run", document.activeElement.dataset.key]) },
    ],
    element: h("div", { class: "view" }, h("h1", {}, "Runs"), note,
      h("div", { class: "scroll" }, h("table", { class: "runs" },
        h("thead", {}, h("tr", {}, ["Run", "Tasks", "Progress", "Success", "Held out", "Episodes", "Updated"].map((name) => h("th", { scope: "col" }, name)))), body))),
  };
}

function row(run) {
  const name = h("th", { scope: "row" }, h("a", { href: link(["run", run.key]), "data-key": run.key }, run.name),
    h("span", { class: "under" }, run.broken ?? [run.key === run.name ? null : run.key, run.estimator, run.policy].filter(Boolean).join(" \u00b7 ")));
  if (run.broken) return h("tr", { class: "broken" }, name, h("td", { colspan: "5" }), h("td", {}, ago(run.updated)));
  const success = run.validation ?? run.last.success;
  return h("tr", {}, name, h("td", {}, run.tasks ?? "\u2013"), h("td", {}, progress(run)),
    h("td", { class: "with-spark" }, run.spark.length > 1 && sparkline(run.spark, `Success while training, now ${percent(success)}`), h("b", {}, percent(success))),
    h("td", { class: "num" }, heldOut(run.held_out)),
    h("td", { class: "num" }, number(run.episodes + run.lacking)),
    h("td", { class: "when" }, run.live ? h("span", { class: "badge live" }, "live") : "", " ", ago(run.updated)));
}

function progress(run) {
  if (!run.steps) return h("span", { class: "faint" }, run.phase ? plain(run.phase) : "\u2013");
  return h("span", { class: "progress" }, h("progress", { max: run.steps, value: run.step, "aria-label": "Steps done" }),
    h("span", {}, `${number(run.step)} / ${number(run.steps)}`));
}

/** Success on held-out tasks, before and after where both are known. */
export function heldOut(evaluations) {
  if (!evaluations.length) return "\u2013";
  const [first, last] = [evaluations[0], evaluations.at(-1)];
  if (evaluations.length === 1) return percent(last.headline.value);
  return [h("span", { class: "faint" }, `${percent(first.headline.value)} \u2192 `), h("b", {}, percent(last.headline.value))];
}
