// The page: which view the address asks for, the bar above it, and looking again while a run is being written.

import { address, go, link } from "./address.js";
import { compareView } from "./compare_view.js";
import { fill, h } from "./dom.js";
import { episodeView } from "./episode_view.js";
import { episodesView } from "./episodes_view.js";
import { keysOfView, listenToKeys, showHelp } from "./keyboard.js";
import { runView } from "./run_view.js";
import { runsView } from "./runs_view.js";
import { source } from "./source.js";
import { themeButton } from "./theme.js";

const EVERY_MS = 2000;
const app = document.getElementById("app");
const trail = h("nav", { class: "trail", "aria-label": "Where you are" });
const stage = h("main", { id: "stage", tabindex: "-1" });
const live = h("span", { class: "pulse", role: "status" });
const theme = themeButton();
let view = null;
let shownAt = 0;
let version = null; // of the files, from before the view was made of them: what was written meanwhile counts as new

function viewOf({ parts, query }) {
  const [place, key, what, id] = parts;
  if (place !== "run" || !key) return source.alone ? runView(source.key) : runsView(query);
  if (what === "episodes") return episodesView(key, query);
  if (what === "episode" && id) return episodeView(key, id, query);
  if (what === "compare") return compareView(key, query.a ?? "", query.b ?? "");
  return runView(key);
}

function drawTrail({ parts }) {
  const [, key = source.key, what] = parts;
  const tab = (name, to, current) => h("a", { href: to, "aria-current": current ? "page" : null }, name);
  fill(trail, h("a", { class: "brand", href: source.alone ? "#" : link([]) }, "agentgym"), key && [
    !source.alone && h("span", { class: "run-name" }, key),
    tab("Overview", source.alone ? "#" : link(["run", key]), !what),
    tab("Episodes", link(["run", key, "episodes"]), Boolean(what)),
    !source.alone && h("a", { href: `/api/runs/${encodeURIComponent(key)}/report`, target: "_blank", rel: "noopener" }, "Report \u2197"),
  ]);
}

async function show() {
  const wanted = address();
  const mine = ++shownAt;
  drawTrail(wanted);
  try {
    const made = await viewOf(wanted);
    if (mine !== shownAt) return;
    [view, version] = [made, made.version ?? null];
    document.title = `${made.title} \u00b7 agentgym`;
    fill(stage, made.element);
    keysOfView(made.keys ?? []);
    window.scrollTo(0, 0);
    made.shown?.();
  } catch (error) {
    if (mine !== shownAt) return;
    view = null;
    keysOfView([]);
    fill(stage, h("div", { class: "view" }, h("h1", {}, "This cannot be shown"), h("p", { class: "notice", role: "alert" }, error.message), h("p", {}, h("a", { href: source.alone ? "#" : link([]) }, source.alone ? "Overview" : "All runs"))));
  }
}

async function lookAgain() {
  const key = address().parts[1];
  if (source.alone || document.hidden || !view?.refresh) return;
  const [mine, seen] = [shownAt, view];
  try {
    if (!key) {
      live.textContent = "";
      await seen.refresh();
      return;
    }
    const found = await source.pulse(key);
    if (mine !== shownAt) return;
    live.textContent = found.live ? "live" : "";
    live.className = found.live ? "pulse badge live" : "pulse";
    if (version === found.version) return;
    version = found.version;
    await seen.refresh();
  } catch {
    live.textContent = "the server is gone";
    live.className = "pulse badge bad";
  }
}

async function watch() {
  await lookAgain();
  setTimeout(watch, EVERY_MS);
}

listenToKeys([
  { keys: ["d"], told: "light, dark, or as the system", act: theme.next },
  { keys: ["h"], told: source.alone ? "overview" : "all runs", act: () => (source.alone ? (location.hash = "") : go([])) },
]);
fill(app, h("a", { class: "skip", href: "#stage", onclick: (event) => { event.preventDefault(); stage.focus(); } }, "Skip to the content"),
  h("header", { class: "bar" }, trail, h("div", { class: "right" }, live, h("button", { type: "button", class: "quiet", onclick: showHelp, "aria-label": "Keys" }, "? ", h("span", { class: "word" }, "keys")), theme.button)), stage);
window.addEventListener("hashchange", show);
show();
watch();
