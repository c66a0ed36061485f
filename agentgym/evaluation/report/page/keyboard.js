// Keys: a view says which it has, `?` lists them.

import { fill, h } from "./dom.js";

const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" });
let everywhere = [];
let here = [];

/** Keys that work in every view: `{keys: ["d"], told: "dark or light", act}`. Starts to listen. */
export function listenToKeys(bindings) {
  everywhere = [{ keys: ["?"], told: "this list", act: showHelp }, ...bindings];
  document.body.append(dialog);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const typing = event.target.closest?.("input, select, textarea");
    if (typing && event.key !== "Escape") return;
    if (typing) return typing.blur();
    const binding = [...here, ...everywhere].find((one) => one.keys.includes(event.key));
    if (!binding || (event.key === "Enter" && event.target.closest?.("a, button, summary"))) return;
    event.preventDefault();
    binding.act(event);
  });
}

/** The keys of the view that is shown now. */
export function keysOfView(bindings) {
  here = bindings;
}

export function showHelp() {
  const row = (one) => h("tr", {}, h("td", {}, one.keys.map((key, i) => [i ? " " : "", h("kbd", {}, name(key))])), h("td", {}, one.told));
  fill(
    dialog,
    h("h2", { id: "help-title" }, "Keys"),
    h("table", {}, h("tbody", {}, [...here, ...everywhere].map(row))),
    h("form", { method: "dialog" }, h("button", { class: "plain" }, "Close")),
  );
  dialog.showModal();
}

function name(key) {
  return { ArrowDown: "\u2193", ArrowUp: "\u2191", ArrowLeft: "\u2190", ArrowRight: "\u2192", Escape: "Esc" }[key] ?? key;
}
