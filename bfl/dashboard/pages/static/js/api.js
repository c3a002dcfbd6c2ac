// What the page asks of its server, and how it writes what it got: always as text, never as HTML.

export const run = document.body.dataset.run || "";

export function address(path, query = {}) {
  const asked = new URLSearchParams(query);
  if (run) asked.set("run", run);
  const text = asked.toString();
  return text ? `${path}?${text}` : path;
}

export async function ask(path, query = {}) {
  const answer = await fetch(address(`/api/v1/${path}`, query), { credentials: "same-origin" });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

/** Characters that turn the writing around, or that nobody sees, as their numbers; the server does the same. */
export function visible(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (each) => `⟨U+${each.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

export function say(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

export function make(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = visible(text);
  return made;
}

/** Colours as the style sheet has them, resolved for a canvas. */
export function colour(names) {
  const probe = make("span", { class: `probe ${names}`, hidden: "" });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function faded(text, share) {
  const parts = text.match(/[\d.]+/g);
  return parts ? `rgb(${parts[0]} ${parts[1]} ${parts[2]} / ${share})` : text;
}

export function onTheme(again) {
  window.addEventListener("bfl-theme", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const digits = value >= 100 ? 0 : value >= 1 ? 2 : 3;
  return `${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} s`;
}
