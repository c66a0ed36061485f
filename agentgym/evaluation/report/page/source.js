// Where the data comes from: the viewer's server, or the page itself where it is a report that stands alone.

import { address, replaceQuery } from "./address.js";

const SORTABLE = ["episode", "task", "success", "reward", "turns", "tokens", "duration_s", "stop"];

const TOKEN = "agentgym-token"; // in the address that agentgym view prints; without it, notes are only read

/** Returns the token for writing notes, after storing a new one if it is given. */
function storedToken(fresh = null) {
  try {
    if (fresh) localStorage.setItem(TOKEN, fresh);
    return localStorage.getItem(TOKEN) ?? "";
  } catch {
    return fresh ?? ""; // this browser stores nothing: notes are only read
  }
}

async function ask(path, query = {}, body = undefined) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  const answer = await fetch(`/api/${path}${words.size ? `?${words}` : ""}`, {
    headers: { [TOKEN]: storedToken(), ...(body && { "content-type": "application/json" }) },
    ...(body && { method: "POST", body: JSON.stringify(body) }),
  });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new Error(typeof told.detail === "string" ? told.detail : `The server answered ${answer.status}.`);
  }
  return answer.json();
}

function served() {
  const run = (key) => `runs/${encodeURIComponent(key)}`;
  const { parts, query: { token, ...query } } = address();
  if (token) {
    storedToken(token);
    replaceQuery(parts, query);
  }
  return {
    alone: false,
    runs: () => ask("runs"),
    run: (key) => ask(run(key)),
    pulse: (key) => ask(`${run(key)}/pulse`),
    episodes: (key, query) => ask(`${run(key)}/episodes`, query),
    episode: (key, id) => ask(`${run(key)}/episode`, { id }),
    tokens: (key, id) => ask(`${run(key)}/tokens`, { id }),
    notes: (key) => ask(`${run(key)}/notes`),
    writeNote: (key, text, episode) => ask(`${run(key)}/note`, {}, { text, episode }),
  };
}

function embedded(data) {
  const all = data.rows.map((values) => Object.fromEntries(data.columns.map((name, i) => [name, values[i]])));
  const tests = {
    held: (row) => row.id in data.episodes,
    only: (row, value) => (value === "truncated" ? row.truncated : row.verdict === value),
    phase: (row, value) => phaseOf(row.run) === value,
    run: (row, value) => row.run === value,
    task: (row, value) => row.task === value,
    failure: (row, value) => value in row.failures,
    tag: (row, value) => row.tags.includes(value),
    stop: (row, value) => (row.stop ?? "") === value,
    text: (row, value) => row.id.toLowerCase().includes(value.toLowerCase()),
  };
  const chosen = (query, names) =>
    all.filter((row) => names.every((name) => !query[name] || tests[name](row, query[name])));

  function episodes(_key, query) {
    const rows = chosen(query, Object.keys(tests));
    const sort = SORTABLE.includes(query.sort) ? query.sort : "episode";
    const way = String(query.descending) === "true" ? -1 : 1;
    rows.sort((a, b) => compareRows(a, b, sort, way));
    const facets = { only: {}, failure: {}, tag: {}, phase: {}, stop: {} };
    for (const row of all) count(facets.phase, phaseOf(row.run));
    const within = ["held", "phase", "run", "task", "text"];
    for (const row of chosen(query, within)) for (const tag of row.tags) count(facets.tag, tag);
    for (const row of chosen(query, [...within, "tag"])) {
      count(facets.only, row.verdict);
      if (row.truncated) count(facets.only, "truncated");
      count(facets.stop, row.stop ?? "");
      for (const kind of Object.keys(row.failures)) count(facets.failure, kind);
    }
    const offset = Number(query.offset ?? 0);
    const page = rows.slice(offset, offset + Number(query.limit ?? 200));
    return { rows: page, total: rows.length, all: all.length + data.left_out, lacking: 0, facets, left_out: data.left_out };
  }

  function found(id, what) {
    if (!(id in what)) throw new Error("This episode is not in the report, to keep the file small: agentgym view shows it.");
    return what[id];
  }

  function episode(id) {
    const one = found(id, data.episodes);
    const tries = all.filter((row) => row.task === one.task.id);
    const group = tries.filter((row) => row.run === one.run).map((row) => ({ ...row, credit: data.credit[row.id] ?? null }));
    return { ...one, tools: data.tools[one.tools], group, same_task: tries.filter((row) => row.id in data.episodes) };
  }

  return {
    alone: true,
    key: data.run.key,
    runs: async () => [data.run],
    run: async () => data.run,
    pulse: async () => ({ version: data.run.version, live: false }),
    episodes: async (key, query) => episodes(key, query),
    episode: async (_key, id) => episode(id),
    notes: async () => ({ notes: data.notes, read_only: null }),
    tokens: async (_key, id) => ({ spans: found(id, data.tokens), pieces: data.pieces }),
    holds: (id) => id in data.episodes,
  };
}

function compareRows(a, b, sort, way) {
  const [x, y] = [a[sort], b[sort]];
  if (x === y) return way * (a.episode - b.episode);
  if (x === null) return 1;
  if (y === null) return -1;
  return way * (x < y ? -1 : 1);
}

function count(counts, name) {
  counts[name] = (counts[name] ?? 0) + 1;
}

/** A run without its step: `train` of `train-000012`. */
export function phaseOf(run) {
  return run.replace(/[0-9]+$/, "").replace(/-+$/, "");
}

function openSource() {
  const data = document.getElementById("data");
  return data ? embedded(JSON.parse(data.textContent)) : served();
}

export const source = openSource();
