'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { merge, covers, gaps, total, common } = require('./intervals');

test('merges what overlaps', () => {
  assert.deepStrictEqual(merge([[5, 8], [1, 3], [2, 4]]), [[1, 4], [5, 8]]);
});
test('merges what touches', () => {
  assert.deepStrictEqual(merge([[1, 2], [2, 3]]), [[1, 3]]);
});
test('merges what lies within', () => {
  assert.deepStrictEqual(merge([[1, 9], [2, 3]]), [[1, 9]]);
});
test('covers its start and not its end', () => {
  assert.deepStrictEqual([covers([[1, 3]], 1), covers([[1, 3]], 3), covers([[1, 3]], 0)], [true, false, false]);
});
test('finds gaps between', () => {
  assert.deepStrictEqual(gaps([[2, 3], [5, 6]], 0, 8), [[0, 2], [3, 5], [6, 8]]);
});
test('finds no gap where all is taken', () => {
  assert.deepStrictEqual(gaps([[0, 4], [4, 9]], 0, 9), []);
});
test('looks for gaps within its bounds', () => {
  assert.deepStrictEqual(gaps([[-5, -2], [1, 2], [9, 12]], 0, 5), [[0, 1], [2, 5]]);
});
test('finds a gap behind one that began before', () => {
  assert.deepStrictEqual(gaps([[-2, 1], [7, 9]], 0, 5), [[1, 5]]);
});
test('adds up each point once', () => {
  assert.strictEqual(total([[1, 4], [2, 6], [8, 9]]), 6);
});
test('adds up nothing to 0', () => {
  assert.strictEqual(total([]), 0);
});
test('finds what is common', () => {
  assert.deepStrictEqual(common([[1, 5], [7, 9]], [[3, 8]]), [[3, 5], [7, 8]]);
});
test('finds nothing common where they only touch', () => {
  assert.deepStrictEqual(common([[1, 2]], [[2, 3]]), []);
});
test('finds several common parts in one', () => {
  assert.deepStrictEqual(common([[0, 9]], [[1, 2], [4, 5]]), [[1, 2], [4, 5]]);
});
