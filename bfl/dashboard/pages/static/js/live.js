// One stream of what is new. It carries no page: rounds are asked for, and the parts of this page that changed are taken
// from the page as the server now makes it, so that there is one place in which a table is written.

import { address, say } from "./api.js";
import { more, rounds } from "./rounds.js";

const EVERY_MS = 1000;
const AGAIN_MS = 5000;
let stream = null;
let cursor = document.body.dataset.cursor;
let firstNew = null;
let isDue = false;
let timer = null;
let last = 0;

export function startLive() {
  open();
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
}

function open() {
  if (stream || document.hidden) return;
  stream = new EventSource(address("/api/v1/stream", { cursor }));
  stream.addEventListener("open", () => state("good", "live"));
  stream.addEventListener("error", lost);
  for (const name of ["round", "block", "offence", "audit", "health"]) stream.addEventListener(name, heard);
}

function close() {
  stream?.close();
  stream = null;
}

function lost() {
  state("warn", "connection lost");
  if (stream && stream.readyState === EventSource.CLOSED) {
    close();
    setTimeout(open, AGAIN_MS); // it was refused; the browser does not try again by itself
  }
}

function state(tone, text) {
  const place = document.querySelector("#connection");
  place.className = `connection ${tone}`;
  say(place, text);
}

function heard(event) {
  if (event.lastEventId) cursor = event.lastEventId;
  if (event.type === "round") {
    const { first } = JSON.parse(event.data);
    firstNew = firstNew === null ? first : Math.min(firstNew, first);
  }
  isDue = true;
  if (timer === null) timer = setTimeout(refresh, Math.max(0, last + EVERY_MS - Date.now()));
}

async function refresh() {
  const first = firstNew;
  firstNew = null;
  isDue = false;
  last = Date.now();
  if (first !== null && document.body.dataset.round === "0") return location.reload(); // nothing is drawn yet to add to
  try {
    if (first !== null && rounds.columns) await more(first);
    await renew();
  } catch {
    // the stream says when the connection is back
  }
  timer = null;
  if (isDue) timer = setTimeout(refresh, EVERY_MS); // of what came meanwhile this page may say nothing yet
}

/** Parts with an id and `data-live`, where they differ. The answer is this server's own page, escaped like the first. */
export async function renew() {
  const place = new URL(location.href);
  place.searchParams.set("live", "1");
  const answer = await fetch(place, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (fresh.body.dataset.shape !== document.body.dataset.shape) return location.reload();
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const found = fresh.getElementById(old.id);
    if (!found || found.outerHTML === old.outerHTML) continue;
    const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    old.replaceWith(document.importNode(found, true));
    if (focused) [...document.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus();
  }
}

