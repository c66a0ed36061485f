"""JavaScript that the guest runs in a page; all in an isolated context, without the page's variables."""

from __future__ import annotations

BREATHE = "new Promise(done => setTimeout(() => setTimeout(() => done(document.readyState), 0), 0))"
MEASURE = """((most, withText) => {
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  let count = 0;
  for (let node; count < most && (node = walker.nextNode());) {
    if (node.nodeType === 1) count++;
    else if (node.data.length > 2000 && !['SCRIPT', 'STYLE'].includes(node.parentNode.tagName)) count = most;
  }
  return [document.title, count, withText && count < most && document.body ? document.body.innerText.length : 0];
})(%d, %s)"""
"""Returns the title; the number of elements (counted up to the requested number, which a text of over 2,000 characters
reaches at once); and the length of the text, if requested.
"""
TEXT = "document.body ? document.body.innerText : ''"
PIECES = """((left, top, right, bottom, most) => {
  const SMALL = 30, MANY = 200, LONG_TEXT = 2000, PARTS = /\\S[^]{0,1500}(?=\\s|$)|\\S{1,1500}/g;
  const pieces = [], described = [], texts = [];
  const add = (node, depth, whole, text = null) => {
    pieces.push(node);
    described.push([depth, whole, text]);
    if (whole) texts.push(text !== null ? text : node.nodeType === 3 ? node.data.trim() : node.innerText || '');
  };
  const out = (box, view) => (box.width || box.height) &&
    (box.bottom <= view[1] || box.top >= view[3] || box.right <= view[0] || box.left >= view[2]);
  const reach = (one, box) => {  // the box with what flows over its edge
    const over = one.scrollHeight > one.clientHeight + 1 && getComputedStyle(one).overflowY === 'visible';
    return over ? {left: box.left, top: box.top, width: box.width, height: one.scrollHeight, right: box.right,
      bottom: Math.max(box.bottom, box.top + one.scrollHeight)} : box;
  };
  const small = one => {
    const walker = document.createTreeWalker(one, NodeFilter.SHOW_ELEMENT);
    for (let n = 0; n <= SMALL; n++) if (!walker.nextNode()) return true;
    return false;
  };
  const textBox = (node, from = 0, to = node.data.length) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return range.getBoundingClientRect();
  };
  const part = (node, view) => {  // of a long text, what is in view
    const edge = below => {
      let low = 0, high = node.data.length;
      while (low < high) {
        const middle = (low + high) >> 1, box = textBox(node, middle, middle + 1);
        if (below ? box.top < view[3] : box.bottom <= view[1]) low = middle + 1; else high = middle;
      }
      return low;
    };
    return node.data.slice(edge(false), edge(true)).trim();
  };
  const childrenOf = one => one.shadowRoot ? one.shadowRoot.childNodes :
    one.tagName === 'SLOT' && one.assignedNodes().length ? one.assignedNodes() : one.childNodes;
  const first = (children, view) => {  // of many, where to begin: those before lie above
    let low = 0, high = children.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      let at = middle;
      while (at < high && children[at].nodeType !== 1) at++;
      if (at === high) { high = middle; continue; }
      const box = children[at].getBoundingClientRect();
      if ((box.width || box.height) && box.bottom <= view[1]) low = at + 1; else high = middle;
    }
    return low;
  };
  const known = globalThis.agentgymOutOfFlow ||= new WeakMap();
  const outOfFlow = (parent, children) => {  // of many, those that are placed on their own
    const before = known.get(parent);
    if (before && before[0] === children.length) return before[1];
    const placed = [...children].filter(one => one.nodeType === 1 &&
      ['absolute', 'fixed', 'sticky'].includes(getComputedStyle(one).position));
    known.set(parent, [children.length, placed]);
    return placed;
  };
  const own = 'a[href],button,[role],dialog,fieldset,iframe,[aria-label],[tabindex],[contenteditable]';
  const visit = (parent, view, depth) => {
    const children = childrenOf(parent), many = children.length > MANY;
    const placed = many ? outOfFlow(parent, children) : [], chosen = new Set(many ? placed : children);
    if (many) {
      for (let n = first(children, view), outside = 0; n < children.length && outside < MANY; n++) {
        const one = children[n];
        const box = one.nodeType === 1 ? one.getBoundingClientRect() : one.nodeType === 3 ? textBox(one) : null;
        if (!box || !(box.width || box.height) || out(box, view)) outside++;
        else chosen.add(one), outside = 0;
      }
    }
    const ordered = [...chosen];  // to compare two siblings takes as long as there are others before them
    if (placed.length) ordered.sort((a, b) => a.compareDocumentPosition(b) & 4 ? -1 : 1);
    for (const one of ordered) if (pieces.length < most) take(one, view, depth);
  };
  const take = (one, view, depth) => {
    if (one.nodeType === 3) {
      const box = one.data.trim() ? textBox(one) : null;
      if (box && (box.width || box.height) && !out(box, view))
        if (one.data.length <= LONG_TEXT) add(one, depth, true);
        else for (const text of part(one, view).match(PARTS) || []) add(one, depth, true, text);
    }
    if (one.nodeType !== 1) return;
    const box = one.getBoundingClientRect();
    if (out(reach(one, box), view)) return;
    if (one.tagName === 'SELECT' || one.tagName === 'IFRAME' || small(one) && one.textContent.length <= LONG_TEXT) {
      if (box.width || box.height || one.childElementCount) add(one, depth, true);
      return;
    }
    const clips = one.clientHeight && one.scrollHeight > one.clientHeight + 1 && one !== document.body &&
      one !== document.documentElement && getComputedStyle(one).overflowY !== 'visible';
    const within = clips ? [Math.max(view[0], box.left), Math.max(view[1], box.top), Math.min(view[2], box.right),
      Math.min(view[3], box.bottom)] : view;
    const shell = one.matches(own);
    if (shell) add(one, depth, false);
    visit(one, within, depth + shell);
  };
  if (document.body) visit(document.documentElement, [left, top, right, bottom], 0);
  globalThis.agentgymPieces = pieces;
  pieces.text = texts.filter(text => text).join('\\n');
  return described;
})(%s, %s, %s, %s, %d)"""
"""Puts the pieces of a page that are in view into `agentgymPieces`. Returns: for each its depth, whether it is shown
with all its content, and for a long text the part in view. Of many siblings, only those near the view are examined,
because a list's elements lie in order; separately positioned elements are always examined.
"""
EXTENT = "[scrollY, innerHeight, (document.scrollingElement || document.documentElement).scrollHeight].map(Math.round)"
"""Returns the top of the view, its height, and the height of the page, in pixels."""
TAKES_FILES = "function() { return this.tagName === 'INPUT' && this.type === 'file' }"
SCROLL = """((direction, share) => {
  const by = {down: [0, share], up: [0, -share], right: [share, 0], left: [-share, 0]}[direction];
  scrollBy(by[0] * innerWidth, by[1] * innerHeight);
})(%s, 0.8)"""
SCROLL_IN = """function(direction) {
  const by = {down: [0, 0.8], up: [0, -0.8], right: [0.8, 0], left: [-0.8, 0]}[direction];
  const sideways = by[0] !== 0;
  const scrolls = one => one.tagName === 'TEXTAREA' || (sideways
    ? one.scrollWidth > one.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(one).overflowX)
    : one.scrollHeight > one.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(one).overflowY));
  let one = this.nodeType === 1 ? this : this.parentElement;
  while (one && !scrolls(one)) one = one.parentElement;
  if (one) one.scrollBy(by[0] * one.clientWidth, by[1] * one.clientHeight);
  else scrollBy(by[0] * innerWidth, by[1] * innerHeight);
}"""
COVER = """function(points, dx, dy) {
  const target = this.nodeType === 1 ? this : this.parentElement;
  const above = one => one.assignedSlot || one.parentElement ||
    (one.getRootNode() instanceof ShadowRoot ? one.getRootNode().host : null);
  const within = (one, other) => { for (; one; one = above(one)) if (one === other) return true; return false; };
  const at = (x, y) => {
    let one = document.elementFromPoint(x, y);
    while (one && one.shadowRoot) {
      const inner = one.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === one) break;
      one = inner;
    }
    return one;
  };
  if (!target || ['AREA', 'OPTION', 'OPTGROUP'].includes(target.tagName)) return 0;
  let cover = null;
  for (let n = 0; n < points.length; n++) {
    const hit = at(points[n][0] - dx, points[n][1] - dy);
    if (!hit || within(hit, target) || within(target, hit)) return n;
    const label = hit.closest('label'), labels = target.closest('label');
    if (label && label.control && within(label.control, target) || labels && labels.control === hit) return n;
    cover = cover || hit;
  }
  const words = cover.getAttribute('aria-label') || (cover.innerText || '').trim().replace(/\\s+/g, ' ') || cover.id;
  return cover.tagName.toLowerCase() + (words ? ' ' + JSON.stringify(words.slice(0, 60)) : '');
}"""
"""Returns which of the points reaches the element; if it is covered at all of them, a description of what covers it."""
NOTE_BELOW = "globalThis.below = document.elementFromPoint(%s, %s), 0"
AGAIN_BELOW = """(async (x, y) => {
  const below = globalThis.below;
  let vanished = false;
  for (let n = 0; n < (vanished ? 130 : 20); n++) {
    if (document.elementFromPoint(x, y) === below && (!below || below.matches(':hover'))) return;
    const box = below && below.isConnected && below.getBoundingClientRect();
    vanished = vanished || !!box && !(box.width && box.height);
    await new Promise(done => setTimeout(done, 15));
  }
})(%s, %s)"""
"""Waits until the element is under the pointer again, because pages may replace it, for example swap an image: up to
0.3 s, or 2 s while the element has no size, for example because its other image still loads.
"""
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
OWNERS = """function(count, ...nodes) {
  const listening = new Set(nodes.slice(0, count)), owners = new Map();
  const roots = [document, document.documentElement, document.body];
  const points = one => getComputedStyle(one).cursor === 'pointer';
  const own = '[draggable=true],[tabindex],[contenteditable],summary,label';
  const reacts = one => listening.has(one) || one.matches(own);
  return nodes.slice(count).map(node => {
    let one = node && (node.nodeType === 1 ? node : node.parentElement);
    while (one && !roots.includes(one) && !reacts(one) &&
           !(points(one) && !(one.parentElement && points(one.parentElement)))) one = one.parentElement;
    if (!one || roots.includes(one)) return -1;
    if (!owners.has(one)) owners.set(one, owners.size);
    return owners.get(one);
  });
}"""
"""The first `count` nodes are those with a pointer listener. Returns for each of the other nodes the number of the
reacting element that it is or lies in; -1 if there is none."""
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
