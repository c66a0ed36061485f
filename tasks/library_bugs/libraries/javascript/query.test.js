'use strict';

const test = require('node:test');
const assert = require('node:assert');
const { parse, format, change } = require('./query');

test('parses names and values', () => {
  assert.deepStrictEqual(parse('a=1&b=two'), { a: '1', b: 'two' });
});
test('parses behind a question mark', () => {
  assert.deepStrictEqual(parse('?a=1'), { a: '1' });
});
test('parses a name without a value', () => {
  assert.deepStrictEqual(parse('a&b='), { a: '', b: '' });
});
test('parses an equals sign in a value', () => {
  assert.deepStrictEqual(parse('a=b=c'), { a: 'b=c' });
});
test('parses a name that occurs three times', () => {
  assert.deepStrictEqual(parse('a=1&a=2&a=3'), { a: ['1', '2', '3'] });
});
test('parses nothing of empty parts', () => {
  assert.deepStrictEqual(parse('&a=1&&'), { a: '1' });
});
test('decodes spaces and signs', () => {
  assert.deepStrictEqual(parse('a+b=c%26d'), { 'a b': 'c&d' });
});
test('leaves what cannot be decoded', () => {
  assert.deepStrictEqual(parse('a=%zz+1'), { a: '%zz 1' });
});
test('formats in the order of the alphabet', () => {
  assert.strictEqual(format({ b: 2, a: 1 }), 'a=1&b=2');
});
test('formats every item of an array', () => {
  assert.strictEqual(format({ a: [1, 2] }), 'a=1&a=2');
});
test('formats nothing of what is missing', () => {
  assert.strictEqual(format({ a: null, b: undefined, c: 0 }), 'c=0');
});
test('encodes names and values', () => {
  assert.strictEqual(format({ 'a b': 'c&d' }), 'a%20b=c%26d');
});
test('changes a value and keeps the others', () => {
  assert.strictEqual(change('/find?page=2&q=x', { page: 3 }), '/find?page=3&q=x');
});
test('takes a value away', () => {
  assert.strictEqual(change('/find?page=2', { page: null }), '/find');
});
test('adds a value where there was none', () => {
  assert.strictEqual(change('/find', { q: 'x' }), '/find?q=x');
});
