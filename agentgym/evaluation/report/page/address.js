// Where one is in the page, kept in the address after the #, so that links, reloading and going back work.

/** Parts and parameters of the address. */
export function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decode), query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** An address from parts and parameters; empty ones are left out. */
export function link(parts, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null && value !== false));
  return `#/${parts.map(encodeURIComponent).join("/")}${words.size ? `?${words}` : ""}`;
}

export function go(parts, query = {}) {
  location.hash = link(parts, query);
}

/** Change the address without a new entry in the history. */
export function replaceQuery(parts, query) {
  history.replaceState(null, "", link(parts, query));
}
