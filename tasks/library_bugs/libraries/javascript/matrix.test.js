'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { identity, transpose, multiply, power, determinant, trace } = require('./matrix');

test('has ones on the diagonal', () => {
  assert.deepStrictEqual(identity(2), [[1, 0], [0, 1]]);
});
test('turns rows into columns', () => {
  assert.deepStrictEqual(transpose([[1, 2, 3], [4, 5, 6]]), [[1, 4], [2, 5], [3, 6]]);
});
test('multiplies rows by columns', () => {
  assert.deepStrictEqual(multiply([[1, 2]], [[3, 4], [5, 6]]), [[13, 16]]);
});
test('multiplies a column by a row', () => {
  assert.deepStrictEqual(multiply([[2], [3]], [[4, 5]]), [[8, 10], [12, 15]]);
});
test('refuses what does not fit', () => {
  assert.throws(() => multiply([[1, 2]], [[1, 2]]), RangeError);
});
test('raises to the power 0', () => {
  assert.deepStrictEqual(power([[2, 1], [1, 1]], 0), [[1, 0], [0, 1]]);
});
test('raises to an odd power', () => {
  assert.deepStrictEqual(power([[1, 1], [1, 0]], 7), [[21, 13], [13, 8]]);
});
test('raises to an even power', () => {
  assert.deepStrictEqual(power([[2]], 10), [[1024]]);
});
test('refuses a negative power', () => {
  assert.throws(() => power([[2]], -1), RangeError);
});
test('has the determinant of one number', () => {
  assert.strictEqual(determinant([[7]]), 7);
});
test('has the determinant of two rows', () => {
  assert.strictEqual(determinant([[1, 2], [3, 5]]), -1);
});
test('has the determinant of three rows', () => {
  assert.strictEqual(determinant([[2, 0, 1], [1, 3, 2], [1, 1, 4]]), 18);
});
test('adds up the diagonal', () => {
  assert.strictEqual(trace([[1, 2], [3, 4]]), 5);
});
