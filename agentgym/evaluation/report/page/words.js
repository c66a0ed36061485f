// Numbers, times and states as people read them.

const MINUS = "\u2212";

/** 1,204 or 0.034 or 2.5e-6. */
export function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "\u2013";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e9) return value.toExponential(1).replace("e+", "e").replace("-", MINUS);
  if ((size >= 1000 && digits <= 3) || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US").replace("-", MINUS);
  return String(Number(value.toPrecision(digits))).replace("-", MINUS);
}

/** With its sign, two decimals: what is added or taken away. */
export function signed(value) {
  if (value === null || value === undefined) return "\u2013";
  const text = Math.abs(value) >= 0.005 || value === 0 ? Math.abs(value).toFixed(2) : Math.abs(value).toPrecision(1);
  return (value > 0 ? "+" : value < 0 ? MINUS : "") + text;
}

/** With two decimals: a total. */
export function twoDecimals(value) {
  return signed(value).replace("+", "");
}

/** A share of 1 in hundredths, rounded as agentgym/text.py does: 28.5 for 0.285, whose hundredfold is 28.499... */
function hundredfold(share, digits) {
  const [mantissa, exponent] = Math.abs(share).toExponential().split("e");
  const units = Math.round(Number(`${mantissa}e${Number(exponent) + 2 + digits}`));
  return (share < 0 && units ? MINUS : "") + (units / 10 ** digits).toFixed(digits);
}

/** Points of a hundred, with their sign. */
export function pointsOf(value) {
  const text = hundredfold(value, 1);
  return text.startsWith(MINUS) ? text : `+${text}`;
}

export function percent(value, digits = 0) {
  return value === null || value === undefined ? "\u2013" : `${hundredfold(value, digits)} %`;
}

/** `48 s`, `7 min 05 s`, `2 h 10 min`; below a second in milliseconds. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "\u2013";
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const whole = Math.round(seconds);
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  return `${Math.floor(whole / 3600)} h ${two(Math.floor((whole % 3600) / 60))} min`;
}

/** How long ago, from Unix seconds. */
export function ago(time, now = Date.now() / 1000) {
  const gone = Math.max(0, now - time);
  if (gone < 5) return "just now";
  if (gone < 90) return `${Math.round(gone)} s ago`;
  if (gone < 5400) return `${Math.round(gone / 60)} min ago`;
  if (gone < 129600) return `${Math.round(gone / 3600)} h ago`;
  return new Date(1000 * time).toISOString().slice(0, 10);
}

export function plain(word) {
  return String(word).replaceAll("_", " ");
}

const VERDICTS = {
  solved: ["solved", "good", "\u2713"], unsolved: ["not solved", "bad", "\u2717"],
  failed: ["failed", "odd", "!"], running: ["running", "live", "\u2026"], unjudged: ["not judged", "none", "\u00b7"],
};

/** A verdict in words, its class, and a sign for those who do not tell colours apart. */
export function verdictOf(name) {
  const [words, kind, sign] = VERDICTS[name] ?? [plain(name), "none", "\u00b7"];
  return { words, kind, sign };
}

const FAILURES = {
  malformed: "could not be read", unknown_tool: "no such tool", wrong_arguments: "wrong arguments", by_program: "answered by its program or team",
  tool_error: "refused by the tool", timeout: "took too long", over_budget: "after the budget was used up",
  void: "void turn", repeated: "asked before", refused: "declined", failed: "infrastructure failed",
};

/** A kind of failure, for people; those of calls are the statuses of results. */
export function failureOf(kind) {
  return FAILURES[kind] ?? plain(kind);
}

/** Kinds of failures and how often each occurred, in words. */
export function failuresOf(counts) {
  return Object.entries(counts).map(([kind, count]) => failureOf(kind) + (count > 1 ? ` \u00d7${count}` : ""));
}
