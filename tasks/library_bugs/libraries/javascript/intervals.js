'use strict';

// Intervals are pairs [from, to) of numbers with from < to.
function merge(intervals) {
  const sorted = [...intervals].sort((a, b) => a[0] - b[0]);
  const merged = [];
  for (const [from, to] of sorted) {
    const last = merged[merged.length - 1];
    if (last !== undefined && from <= last[1]) {
      last[1] = Math.max(last[1], to);
    } else {
      merged.push([from, to]);
    }
  }
  return merged;
}

function covers(intervals, point) {
  return intervals.some(([from, to]) => from <= point && point < to);
}

// What intervals leave free between two numbers.
function gaps(intervals, from, to) {
  const free = [];
  let reached = from;
  for (const [start, end] of merge(intervals)) {
    if (end <= from) {
      continue;
    }
    if (start >= to) {
      break;
    }
    if (start > reached) {
      free.push([reached, start]);
    }
    reached = Math.max(reached, end);
  }
  if (reached < to) {
    free.push([reached, to]);
  }
  return free;
}

function total(intervals) {
  let sum = 0;
  for (const [from, to] of merge(intervals)) {
    sum += to - from;
  }
  return sum;
}

// The parts that two lists of intervals have in common.
function common(first, second) {
  const left = merge(first);
  const right = merge(second);
  const both = [];
  let i = 0;
  let j = 0;
  while (i < left.length && j < right.length) {
    const from = Math.max(left[i][0], right[j][0]);
    const to = Math.min(left[i][1], right[j][1]);
    if (from < to) {
      both.push([from, to]);
    }
    if (left[i][1] < right[j][1]) {
      i += 1;
    } else {
      j += 1;
    }
  }
  return both;
}

module.exports = { merge, covers, gaps, total, common };
