'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { Cache } = require('./cache');

function started(size = 2, lifetime = 10) {
  const state = { now: 0 };
  const cache = new Cache(size, lifetime, () => state.now);
  return { cache, state };
}

test('gives what was set', () => {
  const { cache } = started();
  cache.set('a', 1);
  assert.strictEqual(cache.get('a'), 1);
});
test('gives nothing for a key that is not there', () => {
  assert.strictEqual(started().cache.get('a'), undefined);
});
test('gives the newer value', () => {
  const { cache } = started();
  cache.set('a', 1);
  cache.set('a', 2);
  assert.deepStrictEqual([cache.get('a'), cache.keys().length], [2, 1]);
});
test('drops the oldest', () => {
  const { cache } = started();
  ['a', 'b', 'c'].forEach((key) => cache.set(key, key));
  assert.deepStrictEqual(cache.keys(), ['b', 'c']);
});
test('keeps what was used lately', () => {
  const { cache } = started();
  cache.set('a', 1);
  cache.set('b', 2);
  cache.get('a');
  cache.set('c', 3);
  assert.deepStrictEqual(cache.keys(), ['a', 'c']);
});
test('forgets at the end of the lifetime', () => {
  const { cache, state } = started();
  cache.set('a', 1);
  state.now = 9;
  const before = cache.get('a');
  state.now = 10;
  assert.deepStrictEqual([before, cache.get('a')], [1, undefined]);
});
test('lives anew when it is set once more', () => {
  const { cache, state } = started();
  cache.set('a', 1);
  state.now = 8;
  cache.set('a', 2);
  state.now = 12;
  assert.strictEqual(cache.get('a'), 2);
});
test('drops what is too old before what is old', () => {
  const { cache, state } = started();
  cache.set('b', 2);
  state.now = 5;
  cache.set('a', 1);
  cache.get('b');
  state.now = 11;
  cache.set('c', 3);
  assert.deepStrictEqual(cache.keys(), ['a', 'c']);
});
test('sweeps and counts', () => {
  const { cache, state } = started(5);
  cache.set('a', 1);
  cache.set('b', 1);
  state.now = 3;
  cache.set('c', 1);
  state.now = 11;
  assert.deepStrictEqual([cache.sweep(), cache.sweep(), cache.keys()], [2, 0, ['c']]);
});
test('has the rate 0 at first', () => {
  assert.strictEqual(started().cache.rate(), 0);
});
test('has a rate of hits', () => {
  const { cache } = started();
  cache.set('a', 1);
  ['a', 'a', 'a', 'b'].forEach((key) => cache.get(key));
  assert.strictEqual(cache.rate(), 0.75);
});
