'use strict';

// "a=1&b=2" to { a: '1', b: '2' }; a name that occurs several times has an array.
function parse(text) {
  const values = {};
  const start = text.startsWith('?') ? 1 : 0;
  for (const part of text.slice(start).split('&')) {
    if (part === '') {
      continue;
    }
    const sign = part.indexOf('=');
    const name = decode(sign < 0 ? part : part.slice(0, sign));
    const value = sign < 0 ? '' : decode(part.slice(sign + 1));
    if (!(name in values)) {
      values[name] = value;
    } else if (Array.isArray(values[name])) {
      values[name].push(value);
    } else {
      values[name] = [values[name], value];
    }
  }
  return values;
}

function decode(text) {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch (error) {
    return spaced;
  }
}

// The reverse of parse; names come in the order of the alphabet, null and undefined are left out.
function format(values) {
  const parts = [];
  for (const name of Object.keys(values).sort()) {
    const list = Array.isArray(values[name]) ? values[name] : [values[name]];
    for (const value of list) {
      if (value === null || value === undefined) {
        continue;
      }
      parts.push(`${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
    }
  }
  return parts.join('&');
}

// A page's address with other values: given ones replace those that are there, null takes one away.
function change(address, values) {
  const mark = address.indexOf('?');
  const path = mark < 0 ? address : address.slice(0, mark);
  const before = mark < 0 ? {} : parse(address.slice(mark));
  const query = format({ ...before, ...values });
  return query === '' ? path : `${path}?${query}`;
}

module.exports = { parse, format, change };
