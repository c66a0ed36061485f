// One run: what it came to, its curves, its evaluations and its recipe.

import { lineChart, smoothed } from "./chart.js";
import { fill, h } from "./dom.js";
import { go, link } from "./address.js";
import { source } from "./source.js";
import { ago, number, percent, plain, pointsOf } from "./words.js";

/** Builds the view of a run's overview. */
export async function runView(key) {
  const body = h("div");
  const open = new Set();
  let run = null;
  async function refresh() {
    run = await source.run(key);
    fill(body, headline(run), charts(run), everything(run, open), evaluations(run), passes(run), recipe(run, open));
  }
  await refresh();
  return {
    title: run.name,
    version: run.version,
    refresh,
    keys: [{ keys: ["e", "Enter"], told: "episodes", act: () => go(["run", key, "episodes"]) }],
    element: h("div", { class: "view" }, body),
  };
}

function headline(run) {
  const facts = [
    ["Tasks", run.tasks], ["Credit", run.estimator], ["Agent", run.policy],
    ["Progress", run.steps ? `step ${number(run.step)} of ${number(run.steps)}` : run.phase && plain(run.phase)],
    ["Last written", ago(run.updated)],
  ].filter(([, value]) => value);
  return h("section", { class: "headline", "aria-label": "What it came to" },
    run.gain && h("p", { class: "gain" }, h("span", { class: "faint" }, run.stratum ? `Held-out success on ${run.stratum} ` : "Held-out success "),
      percent(run.held_out[0].headline.value), " \u2192 ", h("b", {}, percent(run.held_out.at(-1).headline.value)),
      h("span", { class: run.gain.low > 0 ? "badge good" : run.gain.high < 0 ? "badge bad" : "badge none" },
        `${pointsOf(run.gain.value)} points, 95 % interval ${pointsOf(run.gain.low)} to ${pointsOf(run.gain.high)}`)),
    h("dl", { class: "facts-list" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    run.alarms.length ? h("div", { class: "notice", role: "note" }, h("b", {}, "The guard raised an alarm. "), run.alarms.join("; ")) : null,
    run.notes.length ? h("div", { class: "notice", role: "note" }, h("b", {}, "Could not be read: "), run.notes.join("; ")) : null);
}

function charts(run) {
  const train = run.curves.train ?? {};
  const validation = run.curves.validation ?? {};
  const warm = run.curves.warm_start ?? {};
  const width = (points) => Math.max(1, Math.floor((points?.length ?? 0) / 25)) | 1;
  const line = (name, points, colour) => ({ name, points: smoothed(points ?? [], width(points)), raw: width(points) > 1 ? points : [], colour });
  const checked = (name) => ({ name: "validation", points: validation[name] ?? [], colour: 1, dots: true });
  const components = Object.keys(train).filter((name) => name.startsWith("turn_reward/")).slice(0, 4);
  const drawn = [
    lineChart({ title: "Success", note: "validation with its 95 % interval", share: true, series: [{ ...checked("success"), band: run.bands.validation ?? [] }, line("training", train.success, 5)] }),
    lineChart({ title: "Reward", note: "per training episode", series: [line("reward", train.reward, 2)] }),
    lineChart({ title: "Turns per episode", series: [checked("turns"), line("training", train.turns, 5)] }),
    lineChart({ title: "Calls that ran", share: true, series: [checked("calls_ok"), line("training", train.calls_ok, 5)] }),
    lineChart({ title: "Turn rewards", note: "sum over an episode", series: components.map((name, i) => line(name.slice(12), train[name], i + 1)) }),
    lineChart({ title: "Entropy", note: "of the next token, nats", series: [line("entropy", train.entropy, 4)] }),
    lineChart({ title: "Warm start, loss", note: "nats per token", series: [line("loss", warm.loss, 3)] }),
    lineChart({ title: "Warm start, success", share: true, series: [{ name: "validation", points: run.curves.warm_start_validation?.success ?? [], colour: 3, dots: true, band: run.bands.warm_start_validation ?? [] }] }),
  ].filter(Boolean);
  if (!drawn.length) return h("p", { class: "empty" }, "No curves yet: nothing has been logged.");
  return h("section", { "aria-label": "Curves" }, h("h2", {}, "Curves"), h("div", { class: "charts" }, drawn));
}

function everything(run, open) {
  const phases = Object.entries(run.curves);
  const count = phases.reduce((sum, [, curves]) => sum + Object.keys(curves).length, 0);
  if (!count) return null;
  const holder = h("div");
  const details = h("details", { open: open.has("all") }, h("summary", {}, `All ${count} numbers that were logged`), holder);
  function draw() {
    if (!details.open) return void open.delete("all");
    open.add("all");
    fill(holder, phases.map(([phase, curves]) => h("section", {}, h("h3", {}, plain(phase)),
      h("div", { class: "charts many" }, Object.entries(curves).map(([name, points]) => lineChart({ title: name, small: true, series: [{ name, points, colour: 1 }] }))))));
  }
  details.addEventListener("toggle", draw);
  if (details.open) draw();
  return details;
}

function evaluations(run) {
  if (!run.evaluations.length) return null;
  const rows = run.evaluations.map((one) => [
    h("tr", {}, h("th", { scope: "row" }, source.alone ? one.label : h("a", { href: link(["run", run.key, "episodes"], { phase: one.run.replace(/[0-9]+$/, "").replace(/-+$/, "") }) }, one.label)),
      h("td", {}, `${one.task_set}:${one.split}`), h("td", { class: "num" }, `${number(one.tasks)} \u00d7 ${one.samples}`),
      h("td", {}, interval(one.success)), h("td", { class: "num" }, number(one.turns)), h("td", { class: "num" }, percent(one.calls_ok)),
      h("td", { class: "num" }, number(one.failed)), h("td", {}, h("code", { title: "Equal manifests are of exactly the same tasks" }, one.manifest))),
    one.tags.map((tag) => h("tr", { class: "sub" }, h("th", { scope: "row" }, tag.tag), h("td", {}), h("td", { class: "num" }, number(tag.tasks)), h("td", {}, interval(tag.success)), h("td", { colspan: "4" }))),
  ]);
  const heads = ["Evaluation", "Tasks", "n", "Success, 95 % interval", "Turns", "Calls ran", "Failed", "Manifest"];
  return h("section", { "aria-label": "Evaluations" }, h("h2", {}, "Evaluations"),
    h("div", { class: "scroll" }, h("table", { class: "evaluations" }, h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col", class: ["n", "Turns", "Calls ran", "Failed"].includes(name) ? "num" : null }, name)))), h("tbody", {}, rows))));
}

function passes(run) {
  const rows = run.evaluations.flatMap((one) => [["pass@k", one.pass_at], ["pass^k", one.pass_hat]].map(([name, curve]) => [`${one.label}, ${name}`, new Map(curve)]));
  const ks = [...new Set(rows.flatMap(([, curve]) => [...curve.keys()]))].sort((a, b) => a - b);
  if (ks.length < 2) return null;
  return h("section", { "aria-label": "Luck and reliability" }, h("h2", {}, "Luck and reliability"),
    h("p", { class: "faint" }, "pass@k: at least one of k tries solves the task. pass^k: all k do. With 95 % intervals over tasks."),
    h("div", { class: "scroll" }, h("table", { class: "evaluations" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "k"), ks.map((k) => h("th", { scope: "col" }, number(k))))),
      h("tbody", {}, rows.filter(([, curve]) => curve.size > 1).map(([name, curve]) => h("tr", {}, h("th", { scope: "row" }, name), ks.map((k) => h("td", {}, curve.has(k) ? interval(curve.get(k)) : ""))))))));
}

function interval(estimate) {
  if (estimate.value === null) return "no data";
  return h("span", { class: "interval", vars: { "--low": percent(estimate.low, 1).replace(" ", ""), "--high": percent(estimate.high, 1).replace(" ", ""), "--value": percent(estimate.value, 1).replace(" ", "") } },
    h("span", { class: "bar", "aria-hidden": "true" }), h("b", {}, percent(estimate.value)), h("span", { class: "faint" }, ` ${percent(estimate.low)} to ${percent(estimate.high)}`));
}

function recipe(run, open) {
  if (!run.recipe) return null;
  return h("details", { open: open.has("recipe"), ontoggle: (event) => open[event.target.open ? "add" : "delete"]("recipe") },
    h("summary", {}, "The recipe, resolved"), h("pre", { class: "recipe" }, run.recipe));
}
