// What two episodes of one task did alike, and where they parted.

/**
 * Pairs of turns in order: [i, j], with null where one episode has no counterpart. The longest run of turns that
 * begin with the same calls is kept together.
 */
export function alignedTurns(a, b) {
  const [left, right] = [a.map(signature), b.map(signature)];
  const steps = common(left, right);
  const pairs = [];
  let [i, j] = [0, 0];
  for (const [x, y] of [...steps, [left.length, right.length]]) {
    while (i < x && j < y) pairs.push([i++, j++]); // turns between two common ones stand side by side
    while (i < x) pairs.push([i++, null]);
    while (j < y) pairs.push([null, j++]);
    if (x < left.length && y < right.length) pairs.push([i++, j++]);
  }
  return pairs;
}

/** What a turn did, to see whether two turns did the same. */
export function signature(turn) {
  return JSON.stringify([turn.calls.map((call) => [call.name, call.error === null ? call.arguments : call.error]), turn.calls.length ? "" : said(turn)]);
}

/** Whether two turns did the same and got the same back. */
export function alike(a, b) {
  const back = (turn) => JSON.stringify(turn.results.map((result) => [result.status, result.parts]));
  return signature(a) === signature(b) && said(a) === said(b) && back(a) === back(b);
}

function said(turn) {
  return [...(turn.thought ?? []), ...turn.parts].map((part) => part.text ?? part.image).join("");
}

/** Two texts as pieces of [text, "same" | "only"], word by word: those of the first, and those of the second. */
export function differingWords(a, b) {
  const [left, right] = [a.match(/\s+|\w+|[^\s\w]/g) ?? [], b.match(/\s+|\w+|[^\s\w]/g) ?? []];
  if (left.length * right.length > 4e6) return [[[a, a === b ? "same" : "only"]], [[b, a === b ? "same" : "only"]]];
  const steps = common(left, right);
  return [pieces(left, steps.map(([i]) => i)), pieces(right, steps.map(([, j]) => j))];
}

function pieces(words, same) {
  const kept = new Set(same);
  const found = [];
  words.forEach((word, i) => {
    const kind = kept.has(i) ? "same" : "only";
    if (found.at(-1)?.[1] === kind) found.at(-1)[0] += word;
    else found.push([word, kind]);
  });
  return found;
}

/** Places of a longest common subsequence. */
function common(a, b) {
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      table[i * width + j] = a[i] === b[j] ? table[(i + 1) * width + j + 1] + 1 : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
  const found = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) found.push([i++, j++]);
    else if (table[(i + 1) * width + j] >= table[i * width + j + 1]) i++;
    else j++;
  }
  return found;
}
