"""A clipboard for each episode. Pages must never use Chromium's own, which all its browser contexts share.

`IN_FRAMES` runs in an isolated execution context of every frame. It handles each copy, cut and paste before Chromium
does, and tells the episode through a binding that the page cannot see.
"""

from __future__ import annotations

import json

CONTEXT, BINDING = "agentgym", "agentgymMessage"
_MAX_TEXT = 1_000_000
IN_FRAMES = """(() => {
  const send = message => globalThis.agentgymMessage && agentgymMessage(message);
  const active = () => {
    let one = document.activeElement;
    while (one && one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement;
    return one || document.body || document.documentElement;
  };
  const isField = one => one.tagName === 'TEXTAREA' || (one.tagName === 'INPUT' && one.selectionStart !== null);
  const selected = () => {
    const one = active();
    if (isField(one)) return one.type === 'password' ? ['', ''] :
      [one.value.slice(one.selectionStart, one.selectionEnd), ''];
    const selection = getSelection(), box = document.createElement('div');
    if (selection.rangeCount) box.append(selection.getRangeAt(0).cloneContents());
    return [selection.toString(), box.innerHTML];
  };
  const copy = event => {
    let [text, html] = ['', ''];
    if (event.defaultPrevented) {
      [text, html] = ['text/plain', 'text/html'].map(kind => event.clipboardData.getData(kind));
      event.clipboardData.clearData();
    } else {
      [text, html] = selected();
      event.preventDefault();
      if (event.type === 'cut' && text && !document.execCommand('delete'))
        setTimeout(() => document.execCommand('delete'), 0);
    }
    if (text || html) send(JSON.stringify({copy: [text, html]}));
  };
  const last = (type, listener) => addEventListener(type, event => {
    if (event.isTrusted) addEventListener(type, listener, {once: true});
  }, true);
  last('copy', copy);
  last('cut', copy);
  addEventListener('paste', event => {
    if (!event.isTrusted) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    send(JSON.stringify({paste: 1}));
  }, true);
  globalThis.agentgymPaste = (text, html) => {
    const data = new DataTransfer(), one = active();
    data.setData('text/plain', text);
    if (html) data.setData('text/html', html);
    const event = new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true, composed: true});
    if (one.dispatchEvent(event) && text && (isField(one) || one.isContentEditable || document.designMode === 'on'))
      document.execCommand('insertText', false, text);
  };
  addEventListener('agentgym-write', event => send(JSON.stringify({copy: [String(event.detail), '']})));
  addEventListener('agentgym-read', event => send(JSON.stringify({read: Number(event.detail)})));
  globalThis.agentgymRead = (number, text) =>
    dispatchEvent(new CustomEvent('agentgym-text', {detail: JSON.stringify([number, text])}));
  addEventListener('dragstart', () => send('drag'), true);
  last('dragstart', event => { if (event.defaultPrevented) send('drag-prevented'); });
})()"""
IN_PAGES = """(() => {
  const waiting = new Map();
  addEventListener('agentgym-text', event => {
    const [number, text] = JSON.parse(event.detail);
    if (waiting.has(number)) waiting.get(number)(text);
    waiting.delete(number);
  });
  const clipboard = {
    writeText: async text => void dispatchEvent(new CustomEvent('agentgym-write', {detail: String(text)})),
    readText: () => new Promise(done => {
      waiting.set(waiting.size + 1, done);
      dispatchEvent(new CustomEvent('agentgym-read', {detail: waiting.size}));
    }),
  };
  Object.defineProperty(Navigator.prototype, 'clipboard', {get: () => clipboard, configurable: true});
})()"""
"""The pages' `navigator.clipboard`: text only, without asking for permission."""


class Clipboard:
    """The text, and the HTML if any, that an episode copied last."""

    def __init__(self) -> None:
        self._text, self._html = "", ""

    def on_message(self, payload: str) -> str | None:
        """Handle a message of a frame. Returns: the script that answers it in the frame, if it needs an answer."""
        message = json.loads(payload)
        if "copy" in message:
            self._text, self._html = (str(part)[:_MAX_TEXT] for part in message["copy"])
            return None
        if "read" in message:
            return f"agentgymRead({json.dumps(message['read'])}, {json.dumps(self._text)})"
        return f"agentgymPaste({json.dumps(self._text)}, {json.dumps(self._html)})"
