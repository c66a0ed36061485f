// One run: what was learned, its curves, episodes worth reading, its evaluations, its cost and its recipe.

import { lineChart, smoothed } from "./chart.js";
import { fill, h } from "./dom.js";
import { go, link } from "./address.js";
import { noteBox } from "./note_box.js";
import { source } from "./source.js";
import { ago, duration, failureOf, number, percent, plain, pointsOf } from "./words.js";

/** Builds the view of a run's overview. */
export async function runView(key) {
  const top = h("div"), body = h("div");
  const open = new Set();
  const note = await noteBox(key);
  let run = null;
  async function refresh() {
    run = await source.run(key);
    fill(top, headline(run));
    fill(body, gains(run), failures(run), charts(run), pace(run), allNumbers(run, open), toRead(run), evaluations(run), passes(run), costs(run), settings(run, open));
  }
  await refresh();
  return {
    title: run.name,
    version: run.version,
    refresh,
    keys: [{ keys: ["e", "Enter"], told: "episodes", act: () => go(["run", key, "episodes"]) }, ...note.keys],
    element: h("div", { class: "view" }, top, note.element, body),
  };
}

function headline(run) {
  const after = run.held_out.at(-1);
  const facts = [
    ["Tasks", run.tasks], ["Credit", run.estimator], ["Agent", run.policy],
    ["Progress", run.steps ? `step ${number(run.step)} of ${number(run.steps)}` : run.phase && plain(run.phase)],
    ["Before the warm start", run.zero_shot && percent(run.zero_shot.value)],
    ["Control: tools on other data", run.control && percent(run.control.value)],
    ["Several attempts", run.attempts],
    ["Earlier uses of the held-out tasks", after?.held_out_uses ? number(after.held_out_uses) : null],
    ["Last written", ago(run.updated)],
  ].filter(([, value]) => value);
  return h("section", { class: "headline", "aria-label": "Result" },
    h("h1", {}, run.name), claim(run),
    h("dl", { class: "facts-list" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    run.weaker ? h("div", { class: "notice", role: "note" }, `Played in ${run.weaker}.`) : null,
    run.adapted ? h("div", { class: "notice", role: "note" }, h("b", {}, "Label-free adaptation. "), `The agent that was measured last was ${run.adapted}.`) : null,
    run.alarms.length ? h("div", { class: "notice", role: "note" }, h("b", {}, "The collapse guard raised an alarm. "), run.alarms.join("; ")) : null,
    run.notes.length ? h("div", { class: "notice", role: "note" }, h("b", {}, "Could not be read: "), run.notes.join("; ")) : null);
}

/** The result in one sentence, with its paired interval below. */
function claim(run) {
  const after = run.held_out.at(-1);
  if (!after) return h("p", { class: "facts" }, "Nothing has been evaluated yet.");
  const what = after.split === "held_out" ? "Held-out success" : "Success";
  const where = run.stratum ? ` on ${run.stratum}` : "";
  const row = run.gains.find((one) => one.tag === run.stratum) ?? run.gains[0];
  if (!row?.gain) return h("p", { class: "gain" }, `${what}${where}: `, h("b", {}, percent(row.after.value)), h("span", { class: "faint" }, ` ${rangeOf(row.after)}`));
  const [low, high] = [row.gain.low, row.gain.high];
  const kind = low > 0 ? "good" : high < 0 ? "bad" : "none";
  const moved = percent(row.before.value) === percent(row.after.value) ? "stayed at" : row.after.value > row.before.value ? "rose from" : "fell from";
  return [
    h("p", { class: "gain" }, `${what}${where} ${moved} `, moved === "stayed at" ? null : [percent(row.before.value), " to "], h("b", {}, percent(row.after.value)),
      h("span", { class: `badge ${kind}` }, `${pointsOf(row.gain.value)} points, 95 % interval ${pointsOf(low)} to ${pointsOf(high)}`)),
    h("p", { class: "facts" }, row.gain.significant ? "Chance does not explain the difference" : "Chance could explain the difference",
      ` (sign test p ${row.gain.p < 1e-4 ? "< 0.0001" : `= ${row.gain.p.toPrecision(1)}`}). `,
      `Of ${number(row.tasks)} ${row.tasks === 1 ? "task" : "tasks"}, ${number(row.gain.better)} are solved more often than before, ${number(row.gain.worse)} less often, ${number(row.gain.same)} equally often.`,
      row.tag === null || !run.gains[0].gain ? "" : allTasks(run.gains[0])),
  ];
}

/** The whole set, beside a headline that is about one kind of its tasks. */
function allTasks(row) {
  return [" ", h("b", {}, `On all ${number(row.tasks)} tasks: ${percent(row.before.value)} to ${percent(row.after.value)}`), ` (${pointsOf(row.gain.value)} points, ${pointsOf(row.gain.low)} to ${pointsOf(row.gain.high)}).`];
}

/** Success by kind of task in each evaluation of these tasks, with the paired gain between the two of the headline. */
function gains(run) {
  if (!run.gains.length) return null;
  const paired = run.gains[0].before !== null, several = run.same_tasks.length > 2;
  const from = paired && several ? `Gain, points: ${run.held_out[0].label} to ${run.held_out[1].label}` : "Gain, points";
  const heads = several ? ["Tasks", "n", ...run.same_tasks.map((one) => one.label), from] : paired ? ["Tasks", "n", "Before", "After", from] : ["Tasks", "n", "Success, 95 % interval"];
  const rows = run.gains.map((row) => h("tr", { class: row.tag === null ? "all" : null }, h("th", { scope: "row" }, row.tag ?? "all tasks"), h("td", { class: "num" }, number(row.tasks)),
    several ? row.each.map((one) => h("td", {}, interval(one))) : [paired && h("td", {}, interval(row.before)), h("td", {}, interval(row.after))], paired && h("td", { class: "num" }, gainOf(row.gain))));
  const failed = run.held_out.reduce((sum, one) => sum + one.failed, 0);
  return h("section", { "aria-label": "By kind of task" }, h("h2", {}, "By kind of task"), table("evaluations", heads, rows),
    h("p", { class: "facts" }, "n counts tasks. Success has Wilson's 95 % interval", paired && ", the gain a bootstrap interval over pairs of tasks", ". ", run.kinds_left_out && `Not shown: ${run.kinds_left_out}. `,
      failed ? `${number(failed)} episodes failed with their infrastructure and are excluded from every number.` : "No episode failed with its infrastructure."));
}

function gainOf(gain) {
  if (gain === null || gain.value === null) return "no data";
  const kind = gain.low > 0 ? "good" : gain.high < 0 ? "bad" : "none";
  return [h("span", { class: `badge ${kind}` }, pointsOf(gain.value)), h("span", { class: "faint" }, ` ${pointsOf(gain.low)} to ${pointsOf(gain.high)}`)];
}

/** What went wrong in the evaluated episodes, per 100 of them. */
function failures(run) {
  const played = run.same_tasks;
  const kinds = [...new Set(played.flatMap((one) => Object.keys(one.failures)))];
  if (!kinds.length) return null;
  const rate = (one, kind) => (100 * (one.failures[kind] ?? 0)) / Math.max(1, one.episodes);
  const largest = Math.max(...played.flatMap((one) => kinds.map((kind) => rate(one, kind))));
  kinds.sort((a, b) => rate(played.at(-1), b) - rate(played.at(-1), a));
  const rows = kinds.map((kind) => h("tr", {}, h("th", { scope: "row" }, failureOf(kind)), played.map((one) =>
    h("td", {}, h("span", { class: "share", vars: { "--share": `${(100 * rate(one, kind)) / largest}%` } }, h("i", { "aria-hidden": "true" })), number(Math.round(10 * rate(one, kind)) / 10)))));
  return h("section", { "aria-label": "What goes wrong" }, h("h2", {}, "What goes wrong, per 100 episodes"), table("evaluations", ["Failure", ...played.map((one) => one.label)], rows));
}

/** Links to pairs of episodes that show what changed. */
function toRead(run) {
  if (!run.to_read.length) return null;
  const to = ({ ids: [a, b] }) => (b ? link(["run", run.key, "compare"], { a, b }) : link(["run", run.key, "episode", a]));
  return h("section", { "aria-label": "Episodes to read" }, h("h2", {}, "Episodes to read"),
    h("ul", { class: "to-read" }, run.to_read.map((pair) => h("li", {}, h("a", { href: to(pair) }, pair.task), h("span", { class: "faint" }, ` ${pair.reason}`))),
      h("li", {}, h("a", { href: link(["run", run.key, "episodes"]) }, "All episodes"))));
}

function charts(run) {
  const drawn = [...run.reinforcement.flatMap((stage) => reinforcementCharts(run, stage)), ...run.imitation.flatMap((stage) => imitationCharts(run, stage))].filter(Boolean);
  if (!drawn.length) return run.steps ? h("p", { class: "empty" }, "No curves yet: nothing has been logged.") : null;
  return h("section", { "aria-label": "Curves" }, h("h2", {}, "Curves"), h("div", { class: "charts" }, drawn));
}

function named(stage) {
  const name = plain(stage.phase);
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** A curve of at most some 25 points, means of neighbours, with the points themselves behind it. */
function line(name, points, colour) {
  const width = Math.max(1, Math.floor((points?.length ?? 0) / 25)) | 1;
  return { name, points: smoothed(points ?? [], width), raw: width > 1 ? points : [], colour };
}

/** A stage of reinforcement; where it is not the usual one, its name stands before each title. */
function reinforcementCharts(run, stage) {
  const train = run.curves[stage.phase] ?? {};
  const validation = run.curves[stage.validation] ?? {};
  const titled = (title) => (stage.phase === "train" ? title : `${named(stage)}, ${title.toLowerCase()}`);
  const checked = (name) => ({ name: "validation", points: validation[name] ?? [], colour: 1, dots: true });
  const components = Object.keys(train).filter((name) => name.startsWith("turn_reward/")).slice(0, 4);
  const share = (name) => train[name].reduce((sum, [, value]) => sum + value, 0);
  const movers = Object.keys(train).filter((name) => name.startsWith("moved_by/") && share(name) > 0);
  movers.sort((first, second) => share(second) - share(first)).splice(4);
  return [
    lineChart({ title: titled("Success"), note: "validation with its 95 % interval", share: true, series: [{ ...checked("success"), band: run.bands[stage.validation] ?? [] }, line("training", train.success, 5)] }),
    lineChart({ title: titled("Reward"), note: "per training episode", series: [line("reward", train.reward, 2)] }),
    lineChart({ title: titled("Turns per episode"), series: [checked("turns"), line("training", train.turns, 5)] }),
    lineChart({ title: titled("Calls that ran"), share: true, series: [checked("calls_ok"), line("training", train.calls_ok, 5)] }),
    lineChart({ title: titled("Turn rewards"), note: "sum over an episode", series: components.map((name, i) => line(name.slice(12), train[name], i + 1)) }),
    lineChart({ title: titled("What moves the policy"), note: run.moved_by[stage.phase] ?? "", share: true, series: movers.map((name, i) => line(name.slice(9), train[name], i + 1)) }),
    lineChart({ title: titled("Distance from the start"), note: "KL, nats per token", series: [line("KL", train.kl_from_start ?? train.kl, 3)] }),
    lineChart({ title: titled("Age of tokens"), note: "optimiser steps", series: [line("oldest", train["async/age_max"], 3), line("mean", train["async/age_mean"], 1)] }),
    lineChart({ title: titled("Groups ahead"), series: [line("in flight", train["async/in_flight"], 1), line("queued", train["async/queued"], 2)] }),
    lineChart({ title: titled("Entropy"), note: "of the next token, nats", series: [line("entropy", train.entropy, 4)] }),
  ];
}

function imitationCharts(run, stage) {
  const validated = run.curves[stage.validation]?.success ?? [];
  return [
    lineChart({ title: `${named(stage)}, loss`, note: "nats per token", series: [line("loss", run.curves[stage.phase]?.loss, 3)] }),
    lineChart({ title: `${named(stage)}, success`, share: true, series: [{ name: "validation", points: validated, colour: 3, dots: true, band: run.bands[stage.validation] ?? [] }] }),
  ];
}

/** How playing and training keep up with each other: the figures of the last step. */
function pace(run) {
  if (!run.pace.length) return null;
  const words = { count: number, share: (value) => percent(value), seconds: duration, rate: (value) => `${number(value)} / s`, steps: (value) => `${number(value)} steps` };
  return h("section", { "aria-label": "Playing and training" }, h("h2", {}, "Playing and training, last step"),
    h("dl", { class: "facts-list" }, run.pace.map((row) => h("div", { title: row.metric }, h("dt", {}, row.name.charAt(0).toUpperCase() + row.name.slice(1)), h("dd", {}, words[row.unit](row.value))))));
}

function allNumbers(run, open) {
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
      h("td", {}, `${one.task_set}:${one.split}`), h("td", { class: "num" }, `${number(one.tasks)} \u00d7 ${one.group_size}`),
      h("td", {}, interval(one.success)), h("td", { class: "num" }, number(one.turns)), h("td", { class: "num" }, percent(one.calls_ok)),
      h("td", { class: "num" }, number(one.failed)), h("td", {}, h("code", { title: "Equal manifests are of exactly the same tasks" }, one.manifest))),
    one.tags.map((tag) => h("tr", { class: "sub" }, h("th", { scope: "row" }, tag.tag), h("td", {}), h("td", { class: "num" }, number(tag.tasks)), h("td", {}, interval(tag.success)), h("td", { colspan: "4" }))),
  ]);
  const heads = ["Evaluation", "Tasks", "n", "Success, 95 % interval", "Turns", "Calls ran", "Failed", "Manifest"];
  return h("section", { "aria-label": "Evaluations" }, h("h2", {}, "Evaluations"),
    table("evaluations", heads, rows));
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

function table(kind, heads, rows) {
  const right = ["n", "Turns", "Calls ran", "Failed"];
  return h("div", { class: "scroll" }, h("table", { class: kind }, h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col", class: right.includes(name) || name.startsWith("Gain, points") ? "num" : null }, name)))), h("tbody", {}, rows)));
}

function rangeOf(estimate) {
  return `95 % interval ${percent(estimate.low, 1)} to ${percent(estimate.high, 1)}`;
}

function interval(estimate) {
  if (estimate.value === null) return "no data";
  return h("span", { class: "interval", vars: { "--low": percent(estimate.low, 1).replace(" ", ""), "--high": percent(estimate.high, 1).replace(" ", ""), "--value": percent(estimate.value, 1).replace(" ", "") } },
    h("span", { class: "bar", "aria-hidden": "true" }), h("b", {}, percent(estimate.value)), h("span", { class: "faint" }, ` ${percent(estimate.low)} to ${percent(estimate.high)}`));
}

/** Wall time of each phase, and what the episodes of each evaluation used. */
function costs(run) {
  if (!run.timings.length && !run.usage.length) return null;
  return h("section", { "aria-label": "Time and cost" }, h("h2", {}, "Time and cost"),
    run.timings.length > 0 && table("evaluations", ["Phase", "Wall time", "Per step"], run.timings.map((one) => h("tr", {}, h("th", { scope: "row" }, plain(one.phase)), h("td", {}, duration(one.seconds)), h("td", {}, duration(one.step_s))))),
    run.usage.length > 0 && table("evaluations", ["Evaluation", "Used by its episodes"], run.usage.map((one) => h("tr", {}, h("th", { scope: "row" }, one.label), h("td", {}, one.phrases.join(", "))))));
}

function settings(run, open) {
  const folded = (name, title, content) => h("details", { open: open.has(name), ontoggle: (event) => open[event.target.open ? "add" : "delete"](name) }, h("summary", {}, title), content);
  return [
    run.recipe && folded("recipe", "The resolved recipe", h("pre", { class: "recipe" }, run.recipe)),
    run.state.length > 0 && folded("state", "The trainer's state", table("evaluations", ["Key", "Value"], run.state.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value))))),
  ];
}
