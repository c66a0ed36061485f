'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { wrap, slug, truncate, center, prefix } = require('./text');

test('wraps at the width', () => {
  assert.deepStrictEqual(wrap('a bc def', 4), ['a bc', 'def']);
});
test('wraps before a word that is too long', () => {
  assert.deepStrictEqual(wrap('an elephant is', 5), ['an', 'elephant', 'is']);
});
test('wraps nothing into no line', () => {
  assert.deepStrictEqual(wrap('  ', 5), []);
});
test('takes many spaces for one', () => {
  assert.deepStrictEqual(wrap('a   b', 9), ['a b']);
});
test('makes a slug of words', () => {
  assert.strictEqual(slug('Hello, World 2'), 'hello-world-2');
});
test('makes a slug without hyphens at its ends', () => {
  assert.strictEqual(slug(' -x! '), 'x');
});
test('leaves a short text', () => {
  assert.strictEqual(truncate('abcde', 5), 'abcde');
});
test('truncates with a mark', () => {
  assert.strictEqual(truncate('abcdefgh', 6), 'abc...');
});
test('truncates without a space before the mark', () => {
  assert.strictEqual(truncate('ab cdefgh', 6), 'ab...');
});
test('truncates to a part of the mark', () => {
  assert.deepStrictEqual([truncate('abcdef', 2), truncate('abcdef', 3)], ['..', '...']);
});
test('centers with the odd space on the right', () => {
  assert.strictEqual(center('ab', 5), ' ab  ');
});
test('centers with another filling', () => {
  assert.strictEqual(center('x', 3, '*'), '*x*');
});
test('centers nothing that is too long', () => {
  assert.deepStrictEqual([center('abc', 2), center('abc', 3)], ['abc', 'abc']);
});
test('finds a common prefix', () => {
  assert.deepStrictEqual([prefix('under', 'unable'), prefix('a', 'ab'), prefix('x', 'y')], ['un', 'a', '']);
});
