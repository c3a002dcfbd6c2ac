// The rounds as columns: read once, then what is new. Whoever shows them is told of changes, and of the chosen round.

import { ask } from "./api.js";

const MOST_POINTS = 2000;
const shown = new Set();
const choosers = new Set();

export const rounds = { columns: null, last: 0, chosen: null };

export function onRounds(tell) {
  shown.add(tell);
  if (rounds.columns) tell(rounds.columns);
}

/** `tell(round, from)`: somebody points at a round; `from` says who, so that nobody answers to himself. */
export function onChoice(tell) {
  choosers.add(tell);
}

export function choose(round, from) {
  if (rounds.chosen === round || round === null) return;
  rounds.chosen = round;
  for (const tell of choosers) tell(round, from);
}

export async function load() {
  take(await ask("rounds", { after: 0, points: MOST_POINTS }));
}

/** Rounds from `first` on are new, or others than before. */
export async function more(first) {
  const known = rounds.columns;
  if (!known) return load();
  const isShort = known.step === 1 && known.round.length + 1 < MOST_POINTS;
  if (!isShort || first <= 1) return load();
  const found = await ask("rounds", { after: first - 1, points: MOST_POINTS });
  const kept = known.round.filter((each) => each < first).length;
  take(found.step === 1 ? joined(known, found, kept) : await ask("rounds", { after: 0, points: MOST_POINTS }));
}

function take(found) {
  rounds.columns = found;
  rounds.last = found.round.length ? found.round[found.round.length - 1] : 0;
  for (const tell of shown) tell(found);
}

function joined(before, after, kept) {
  const count = after.round.length;
  const made = { ...after };
  for (const [name, value] of Object.entries(before)) {
    if (Array.isArray(value) && name !== "marks" && name !== "bands") made[name] = value.slice(0, kept).concat(after[name] ?? Array(count).fill(null));
  }
  made.seconds = columns(before.seconds, after.seconds, kept, count);
  made.latency = {};
  for (const kind of new Set([...Object.keys(before.latency), ...Object.keys(after.latency)])) {
    made.latency[kind] = columns(before.latency[kind] ?? {}, after.latency[kind] ?? {}, kept, count);
  }
  return made;
}

function columns(before, after, kept, count) {
  const made = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const old = before[name] ? before[name].slice(0, kept) : Array(kept).fill(null);
    made[name] = old.concat(after[name] ?? Array(count).fill(null));
  }
  return made;
}

export function isBarred(server, round) {
  const bands = rounds.columns ? rounds.columns.bands : [];
  return bands.some((each) => each.who === `server ${server}` && each.from <= round && round <= each.through);
}
