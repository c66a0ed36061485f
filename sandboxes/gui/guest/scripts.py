"""JavaScript that the guest runs in a page; all but the first in an isolated context, without the page's variables."""

from __future__ import annotations

BREATHE = "new Promise(done => setTimeout(() => setTimeout(() => done(document.readyState), 0), 0))"
SCROLL = "(d => scrollBy(0, (d === 'down' ? 0.8 : -0.8) * innerHeight))(%s)"
SCROLL_IN = """function(direction) {
  let one = this.nodeType === 1 ? this : this.parentElement;
  while (one && !(one.scrollHeight > one.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(one).overflowY)) &&
         one.tagName !== 'TEXTAREA') one = one.parentElement;
  const by = (direction === 'down' ? 0.8 : -0.8);
  if (one) one.scrollBy(0, by * one.clientHeight); else scrollBy(0, by * innerHeight);
}"""
NOTE_BELOW = "globalThis.below = document.elementFromPoint(%s, %s), 0"
AGAIN_BELOW = """(async (x, y) => {
  for (let n = 0; n < 20 && document.elementFromPoint(x, y) !== globalThis.below; n++)
    await new Promise(done => setTimeout(done, 15));
})(%s, %s)"""
"""Pages change the element under the pointer, for example swap an image; wait until the element is back."""
PREPARE_TYPING = """function(text) {
  const one = this.nodeType === 1 ? this : this.parentElement;
  const tag = one.tagName;
  if (tag === 'INPUT' && ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'].includes(one.type)) {
    one.focus();
    one.value = text;
    one.dispatchEvent(new Event('input', {bubbles: true}));
    one.dispatchEvent(new Event('change', {bubbles: true}));
    return 'set';
  }
  const plain = ['text', 'search', 'url', 'tel', 'password', 'email', 'number', ''];
  if (tag === 'TEXTAREA' || (tag === 'INPUT' && plain.includes(one.type))) {
    one.scrollIntoView({block: 'nearest'});
    one.focus();
    one.select();
    return 'type';
  }
  if (one.isContentEditable) {
    one.focus();
    getSelection().selectAllChildren(one);
    return 'type';
  }
  return 'no';
}"""
CHOOSE = """function(wanted) {
  const fold = text => text.trim().replace(/\\s+/g, ' ').toLowerCase();
  let list = this.nodeType === 1 ? this : this.parentElement;
  while (list && list.tagName !== 'SELECT') list = list.parentElement;
  if (!list) return '';
  const options = [...list.options];
  const match = options.find(o => fold(o.label) === fold(wanted)) || options.find(o => fold(o.value) === fold(wanted));
  if (!match) return 'There is no option ' + JSON.stringify(wanted.slice(0, 60)) + '. Options: ' +
    options.map(o => o.label).join(', ').slice(0, 400) + '.';
  if (match.disabled) return 'That option is disabled.';
  list.focus();
  if (list.multiple) match.selected = !match.selected; else match.selected = true;
  list.dispatchEvent(new Event('input', {bubbles: true}));
  list.dispatchEvent(new Event('change', {bubbles: true}));
  return 'ok';
}"""
MARK = """(boxes => {
  const host = document.createElement('agentgym-marks');
  host.style.cssText = 'position:fixed;inset:0;pointer-events:none;z-index:2147483647';
  const root = host.attachShadow({mode: 'closed'});
  const colours = ['#d00', '#06c', '#080', '#a0a', '#b50', '#077'];
  for (const [number, x1, y1, x2, y2] of boxes) {
    const frame = document.createElement('div'), label = document.createElement('span');
    const colour = colours[number %% colours.length];
    frame.style.cssText = `position:fixed;left:${x1}px;top:${y1}px;width:${x2 - x1}px;height:${y2 - y1}px;` +
      `outline:1px solid ${colour}`;
    label.style.cssText = `position:absolute;right:0;top:-7px;font:bold 10px monospace;line-height:11px;` +
      `padding:0 1px;color:#fff;background:${colour}`;
    label.textContent = number;
    frame.append(label);
    root.append(frame);
  }
  document.documentElement.append(host);
})(%s)"""
UNMARK = "document.querySelectorAll('agentgym-marks').forEach(one => one.remove())"
