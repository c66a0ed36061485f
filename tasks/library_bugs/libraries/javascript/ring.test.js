'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { Ring } = require('./ring');

function filled(size, count) {
  const ring = new Ring(size);
  for (let value = 1; value <= count; value += 1) {
    ring.push(value);
  }
  return ring;
}

test('refuses a size below 1', () => {
  assert.throws(() => new Ring(0), RangeError);
});
test('takes the size 1', () => {
  assert.deepStrictEqual(filled(1, 2).toArray(), [2]);
});
test('keeps the order in which items come', () => {
  assert.deepStrictEqual(filled(4, 3).toArray(), [1, 2, 3]);
});
test('drops the oldest', () => {
  assert.deepStrictEqual(filled(3, 5).toArray(), [3, 4, 5]);
});
test('says how many it has', () => {
  assert.deepStrictEqual([filled(3, 1).push(9), filled(3, 3).push(9)], [2, 3]);
});
test('counts what it dropped', () => {
  assert.strictEqual(filled(3, 5).dropped, 2);
});
test('gives the oldest at 0', () => {
  assert.strictEqual(filled(3, 4).at(0), 2);
});
test('counts negative places from the newest', () => {
  assert.deepStrictEqual([filled(3, 4).at(-1), filled(3, 4).at(-3)], [4, 2]);
});
test('gives nothing outside', () => {
  assert.deepStrictEqual([filled(3, 2).at(2), filled(3, 2).at(-3)], [undefined, undefined]);
});
test('has the mean of all', () => {
  assert.strictEqual(filled(3, 5).mean(), 4);
});
test('has the mean of the newest', () => {
  assert.strictEqual(filled(4, 4).mean(2), 3.5);
});
test('has no mean when it is empty', () => {
  assert.ok(Number.isNaN(new Ring(2).mean()));
});
test('begins anew after clear', () => {
  const ring = filled(3, 5);
  ring.clear();
  ring.push(7);
  assert.deepStrictEqual(ring.toArray(), [7]);
});
