'use strict';

// Lines of at most `width` characters; a longer word has a line of its own.
function wrap(text, width) {
  const lines = [];
  let line = '';
  for (const word of text.split(/\s+/).filter((part) => part !== '')) {
    if (line === '') {
      line = word;
    } else if (line.length + 1 + word.length <= width) {
      line += ` ${word}`;
    } else {
      lines.push(line);
      line = word;
    }
  }
  if (line !== '') {
    lines.push(line);
  }
  return lines;
}

// A text for an address: lower case letters and digits, with single hyphens between.
function slug(text) {
  let result = '';
  for (const letter of text.toLowerCase()) {
    if (/[a-z0-9]/.test(letter)) {
      result += letter;
    } else if (result !== '' && !result.endsWith('-')) {
      result += '-';
    }
  }
  return result.endsWith('-') ? result.slice(0, -1) : result;
}

// At most `width` characters, with `mark` at the end where something is left out.
function truncate(text, width, mark = '...') {
  if (text.length <= width) {
    return text;
  }
  if (width <= mark.length) {
    return mark.slice(0, width);
  }
  return text.slice(0, width - mark.length).trimEnd() + mark;
}

// A text in the middle of `width` characters; the odd space is on the right.
function center(text, width, fill = ' ') {
  const missing = width - text.length;
  if (missing <= 0) {
    return text;
  }
  const left = Math.floor(missing / 2);
  return fill.repeat(left) + text + fill.repeat(missing - left);
}

// The letters that two texts have in common at their start.
function prefix(first, second) {
  let end = 0;
  while (end < first.length && end < second.length && first[end] === second[end]) {
    end += 1;
  }
  return first.slice(0, end);
}

module.exports = { wrap, slug, truncate, center, prefix };
