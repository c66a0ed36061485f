// A note on a run or an episode: shown as text, and edited where the server lets this page write.

import { fill, h } from "./dom.js";
import { link } from "./address.js";
import { source } from "./source.js";

const MAX_LENGTH = 2000; // as in agentgym/storage/notes.py

/** Builds the note on a run, with links to the notes on its episodes, or on one of its episodes. */
export async function noteBox(key, episode = "") {
  const { notes, read_only: readOnly } = await source.notes(key).catch((error) => ({ notes: {}, read_only: error.message }));
  const element = h("section", { class: "note", "aria-label": "Note" });
  const others = episode ? [] : Object.entries(notes).filter(([id]) => id);
  let text = notes[episode] ?? "";

  function show() {
    const silent = readOnly && episode && !text; // the page of the run says why it is read-only
    element.hidden = silent || (readOnly === null && !text && !others.length);
    fill(element, h("div", { class: "note-text" }, text && h("p", {}, text), readOnly === "" && h("button", { type: "button", class: "plain", onclick: edit }, text ? "Edit note" : "Write a note"), readOnly && h("p", { class: "faint small" }, readOnly)),
      others.length > 0 && h("details", { open: others.length < 4 }, h("summary", {}, `Notes on ${others.length} episode${others.length === 1 ? "" : "s"}`),
        h("ul", {}, others.map(([id, note]) => h("li", {}, h("a", { href: link(["run", key, "episode", id]) }, id), h("span", {}, ` ${note}`))))));
  }
  function edit() {
    const input = h("textarea", { rows: "4", maxlength: String(MAX_LENGTH), value: text, "aria-label": "Note", onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && save() });
    const problem = h("p", { class: "notice", role: "alert", hidden: true });
    async function save() {
      try {
        text = (await source.writeNote(key, input.value, episode)).text;
        show();
        element.querySelector("button").focus();
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
      }
    }
    fill(element, input, problem, h("div", { class: "note-buttons" }, h("button", { type: "button", class: "plain", onclick: save }, "Save"), h("button", { type: "button", class: "quiet", onclick: show }, "Cancel")));
    input.focus();
  }
  show();
  return { element, keys: readOnly === "" ? [{ keys: ["w"], told: "write a note", act: edit }] : [] };
}
