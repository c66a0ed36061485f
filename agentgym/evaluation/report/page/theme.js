// Light or dark: what the system says, until one chooses.

import { fill, h } from "./dom.js";

const KEY = "agentgym-theme";
const THEMES = ["system", "light", "dark"];
const SIGNS = { system: "\u25d0", light: "\u2600", dark: "\u263e" };

function stored() {
  try {
    const found = localStorage.getItem(KEY);
    return THEMES.includes(found) ? found : "system";
  } catch {
    return "system"; // a report opened from a file may have no storage
  }
}

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** The button that goes through the three, and the function that presses it. */
export function themeButton() {
  let theme = stored();
  apply(theme);
  const button = h("button", { type: "button", class: "quiet", onclick: next });
  function tell() {
    fill(button, `${SIGNS[theme]} `, h("span", { class: "word" }, theme));
    button.setAttribute("aria-label", `Colours: ${theme}. Change`);
  }
  function next() {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // it holds until the page is closed
    }
    apply(theme);
    tell();
  }
  tell();
  return { button, next };
}
