// The drawing of the network, moved through the rounds by its slider, the charts' cursor, and the arrow keys.

import { address, ask, say, visible } from "./api.js";
import { renew } from "./live.js";
import { choose, isBarred, onChoice, onRounds, rounds } from "./rounds.js";

const BEND = 0.16;
const KEPT = 64;
const FOLLOW_MS = 250;
const SERVER_COLOURS = 6;
const FIRST_HATCHED = 3;
const known = new Map();
let wanted = null;
let isAsking = false;

export function startNetwork() {
  const drawing = document.querySelector("[data-network]");
  const slider = document.querySelector("#round");
  if (!drawing || !slider) return;
  const picture = read(drawing);
  slider.addEventListener("input", () => choose(Number(slider.value), slider));
  onChoice((round, from) => {
    if (from !== slider) slider.value = String(round);
    slider.setAttribute("aria-valuetext", `round ${round} of ${slider.max}`);
    wanted = round;
    catchUp(picture);
  });
  for (const event of ["pointerover", "focusin"]) drawing.addEventListener(event, ({ target }) => name(picture, target));
  if ("follows" in drawing.dataset) follow(slider);
  onRounds((columns) => {
    const isAtEnd = Number(slider.value) >= Number(slider.max);
    if (rounds.last <= Number(slider.max)) return;
    slider.max = String(rounds.last);
    if (isAtEnd && columns.round.length) choose(rounds.last, null);
  });
}

/** The address of the page and its tables move with the slider: what is seen can be linked to. */
function follow(slider) {
  let timer = null;
  onChoice((round) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const place = new URL(location.href);
      if (round >= Number(slider.max)) place.searchParams.delete("round");
      else place.searchParams.set("round", String(round));
      place.searchParams.delete("page");
      history.replaceState(null, "", place);
      renew().catch(() => {});
    }, FOLLOW_MS);
  });
}

/** Where everybody is. */
function read(drawing) {
  const place = (each) => ({ x: Number(each.dataset.x), y: Number(each.dataset.y), element: each });
  const servers = new Map([...drawing.querySelectorAll("[data-server]")].map((each) => [Number(each.dataset.server), place(each)]));
  const ways = new Map([...drawing.querySelectorAll("[data-way]")].map((each) => [each.dataset.way, each]));
  const devices = [...drawing.querySelectorAll("[data-device]")].map((each) => ({
    ...place(each),
    index: Number(each.dataset.device),
    home: Number(each.dataset.home),
    r: Number(each.querySelector("circle").getAttribute("r")),
    title: each.querySelector("title"),
    way: ways.get(each.dataset.device),
  }));
  return { servers, devices, seal: drawing.querySelector(".seal"), crosses: drawing.querySelector(".crosses") };
}

/** One question at a time; of those that came meanwhile the last. */
async function catchUp(picture) {
  if (isAsking) return;
  isAsking = true;
  try {
    while (wanted !== null) {
      const round = wanted;
      wanted = null;
      const fact = known.get(round) ?? (await ask(`rounds/${round}`));
      known.set(round, fact);
      if (known.size > KEPT) known.delete(known.keys().next().value);
      requestAnimationFrame(() => show(picture, fact));
    }
  } catch {
    // the bar above says that the connection is lost
  } finally {
    isAsking = false;
  }
}

function show(picture, fact) {
  const refused = new Map(fact.refused.map((each) => [each.name, each.reason]));
  const guilty = new Set(fact.offences.map((each) => each.offender));
  for (const [index, { element }] of picture.servers) {
    const barred = isBarred(index, fact.round);
    element.classList.toggle("leads", fact.leader === index);
    element.classList.toggle("excluded", barred);
    element.classList.toggle("offends", guilty.has(`server ${index}`));
    const told = [fact.leader === index && "leads", barred && "excluded", guilty.has(`server ${index}`) && "offence"].filter(Boolean);
    say(element.querySelector("title"), [`server ${index}`, ...told].join(", "));
  }
  const winner = picture.devices.find((each) => each.index === fact.winner);
  picture.seal.setAttribute("d", winner ? diamond(winner) : "");
  picture.crosses.setAttribute("d", picture.devices.filter((each) => refused.has(`device ${each.index}`)).map(cross).join(""));
  for (const device of picture.devices) showDevice(picture, device, fact, refused.get(`device ${device.index}`));
  const called = (number, before) => (number === null || number < 0 ? "–" : `${before}${number}`);
  const link = document.querySelector("#network-round");
  say(link, String(fact.round));
  link?.setAttribute("href", address(`/round/${fact.round}`));
  say(document.querySelector("#network-leader"), called(fact.leader, "S"));
  say(document.querySelector("#network-winner"), called(fact.winner, "device "));
  const words = `Round ${fact.round}: ${fact.offloaded} devices offload, ${fact.refused.length} gradients refused.`;
  say(document.querySelector("#network-told"), words);
  say(document.querySelector("#network-title"), `The network in round ${fact.round}`);
  const shown = document.querySelector("#network-words");
  say(shown, words);
}

function showDevice(picture, device, fact, reason) {
  const target = fact.assignment ? fact.assignment[device.index] ?? -1 : -1;
  const goes = picture.servers.has(target) ? target : -1;
  const end = picture.servers.get(goes >= 0 ? goes : device.home);
  device.told = () => [goes >= 0 ? `offloads to server ${goes}` : "trains itself", fact.winner === device.index && "sealed the block", reason && `refused: ${visible(reason)}`];
  if (device.goes === goes) return;
  device.goes = goes;
  const look = goes >= 0 ? `c${goes % SERVER_COLOURS} away${goes >= FIRST_HATCHED ? " hatched" : ""}` : "own";
  if (end) device.way.setAttribute("d", curve(device, end));
  device.way.setAttribute("class", `way ${look}`);
  device.element.setAttribute("class", `device ${look}`);
}

/** Its name is written when somebody points at it: of a thousand nobody reads all. */
function name(picture, target) {
  const found = target.closest("[data-device]");
  const device = found && picture.devices.find((each) => each.element === found);
  if (device?.told) say(device.title, `device ${device.index}: ${device.told().filter(Boolean).join(", ")}`);
}

function diamond({ x, y, r }) {
  const far = r + 4;
  return `M${x} ${y - far}l${far} ${far}l-${far} ${far}l-${far} -${far}z`;
}

function cross({ x, y, r }) {
  return `M${x + r - 2} ${y - r - 2}l5 5m0 -5l-5 5`;
}

function curve(start, end) {
  const x = (start.x + end.x) / 2 - (end.y - start.y) * BEND;
  const y = (start.y + end.y) / 2 + (end.x - start.x) * BEND;
  return `M${start.x} ${start.y}Q${x.toFixed(1)} ${y.toFixed(1)} ${end.x} ${end.y}`;
}

/** One round on or back, for the arrow keys. */
export function step(by) {
  const slider = document.querySelector("#round");
  if (!slider) return false;
  const round = Math.min(Number(slider.max), Math.max(1, Number(slider.value) + by));
  slider.value = String(round);
  choose(round, slider);
  return true;
}
