// Device by round on a canvas as large as what is seen of it: tiles are asked for when they come into view.

import { ask, colour, make, onTheme, say } from "./api.js";
import { choose, onChoice, onRounds, rounds } from "./rounds.js";

const TILE_ROUNDS = 64;
const TILE_DEVICES = 128;
const MOST_TILES = 256;
const AT_ONCE = 4;
const AXIS = 18;
const ROW = 13;
const LEAST_CELL = 9;
const MOST_CELL = 120;
const MOST_HIGH = 400;
const SERVER_COLOURS = 6;
const FIRST_HATCHED = 3;

export function startMatrix() {
  for (const place of document.querySelectorAll("[data-matrix]")) new Matrix(place);
}

class Matrix {
  constructor(place) {
    this.devices = Number(place.dataset.devices);
    this.rounds = Number(place.dataset.rounds);
    this.tiles = new Map();
    this.asked = new Set();
    this.waiting = [];
    this.canvas = make("canvas", { role: "img", "aria-label": "who offloads where, device by round; the table below says the same" });
    this.sheet = make("canvas");
    this.sizer = make("div");
    this.window = make("div", { class: "window", tabindex: "0", role: "region", "aria-label": "who offloads where: scroll through rounds and devices" });
    this.said = make("span", { class: "said", "aria-hidden": "true" });
    this.sizer.append(this.canvas);
    this.window.append(this.sizer);
    place.replaceChildren(this.window, this.said);
    this.window.addEventListener("scroll", () => this.later(), { passive: true });
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => say(this.said, ""));
    new ResizeObserver(() => this.layout()).observe(place);
    onTheme(() => this.layout());
    onRounds(() => this.grow());
    onChoice(() => this.later(false));
    this.layout();
    this.window.scrollLeft = this.window.scrollWidth;
  }

  grow() {
    if (rounds.last === this.rounds && !this.isStale) return this.later();
    const isAtEnd = this.window.scrollLeft + this.window.clientWidth >= this.window.scrollWidth - 4;
    const from = Math.min(this.rounds, rounds.last);
    for (const key of [...this.tiles.keys()]) {
      if (Number(key.split(":")[0]) * TILE_ROUNDS + TILE_ROUNDS >= from) this.tiles.delete(key);
    }
    this.rounds = rounds.last;
    this.layout();
    if (isAtEnd) this.window.scrollLeft = this.window.scrollWidth;
  }

  layout() {
    this.left = 46 + 6.4 * String(Math.max(0, this.devices - 1)).length;
    const room = Math.max(120, this.window.clientWidth - this.left - 4);
    this.cell = Math.min(MOST_CELL, Math.max(LEAST_CELL, Math.floor((100 * room) / Math.max(1, this.rounds)) / 100));
    const wide = this.left + this.cell * this.rounds;
    const high = AXIS + ROW * this.devices;
    this.sizer.style.width = `${wide}px`;
    this.sizer.style.height = `${high}px`;
    this.window.style.height = `${Math.min(MOST_HIGH, high) + (wide > this.window.clientWidth + 1 ? 14 : 2)}px`;
    this.wide = Math.min(wide, this.window.clientWidth);
    this.high = Math.min(high, this.window.clientHeight);
    this.canvas.width = Math.round(this.wide * devicePixelRatio);
    this.canvas.height = Math.round(this.high * devicePixelRatio);
    this.sheet.width = this.canvas.width;
    this.sheet.height = this.canvas.height;
    this.stamps = new Map();
    this.canvas.style.width = `${this.wide}px`;
    this.canvas.style.height = `${this.high}px`;
    this.colours = Array.from({ length: SERVER_COLOURS }, (_, index) => colour(`c${index}`));
    this.paint = { itself: colour("itself"), text: colour("soft"), card: colour("card"), plain: colour("plain"), bad: colour("bad"), band: colour("band"), on: colour("card") };
    this.later();
  }

  /** `isOther`: what is seen is another part, or looks other; if not, only the chosen round has moved. */
  later(isOther = true) {
    this.isOther ||= isOther;
    if (this.isPlanned) return;
    this.isPlanned = true;
    requestAnimationFrame(() => {
      this.isPlanned = false;
      this.draw();
    });
  }

  /** Indices of what is in view. */
  view() {
    const { scrollLeft, scrollTop } = this.window;
    const first = Math.max(0, Math.floor(scrollLeft / this.cell));
    const last = Math.min(this.rounds - 1, Math.floor((scrollLeft + this.wide - this.left) / this.cell));
    const top = Math.max(0, Math.floor(scrollTop / ROW));
    const bottom = Math.min(this.devices - 1, Math.floor((scrollTop + this.high - AXIS) / ROW));
    return { first, last, top, bottom, scrollLeft, scrollTop };
  }

  draw() {
    const view = this.view();
    if (this.isOther) this.drawSheet(view);
    this.isOther = false;
    const paper = this.canvas.getContext("2d");
    paper.setTransform(1, 0, 0, 1, 0, 0);
    paper.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.sheet.width && this.sheet.height) paper.drawImage(this.sheet, 0, 0);
    if (rounds.chosen === null) return;
    const x = this.left + (rounds.chosen - 1) * this.cell - view.scrollLeft - 1;
    if (x < this.left - 2) return;
    paper.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    paper.strokeStyle = this.paint.plain;
    paper.lineWidth = 1;
    paper.strokeRect(x, -2, this.cell, this.high - AXIS + 4);
  }

  /** All but the chosen round, which moves more often. */
  drawSheet(view) {
    const paper = this.sheet.getContext("2d");
    paper.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    paper.clearRect(0, 0, this.wide, this.high);
    paper.save();
    paper.beginPath();
    paper.rect(this.left - 2, 0, this.wide - this.left + 2, this.high - AXIS);
    paper.clip();
    this.tint(paper, view);
    this.cells(paper, view);
    this.lines(paper, view);
    paper.restore();
    this.labels(paper, view);
  }

  /** Rounds in which somebody is excluded, behind the cells. */
  tint(paper, view) {
    paper.fillStyle = this.paint.band;
    for (const each of rounds.columns?.bands ?? []) {
      const left = this.left + (each.from - 1) * this.cell - view.scrollLeft - 1.5;
      paper.fillRect(left, 0, (Math.min(each.through, this.rounds) - each.from + 1) * this.cell, this.high);
    }
  }

  cells(paper, view) {
    for (let column = view.first; column <= view.last; column++) {
      const x = this.left + column * this.cell - view.scrollLeft;
      for (let row = view.top; row <= view.bottom; row++) {
        const tile = this.tile(Math.floor(column / TILE_ROUNDS), Math.floor(row / TILE_DEVICES));
        if (!tile) continue;
        const index = column + 1 - tile.from;
        const target = tile.rows[row - tile.first]?.[index];
        if (target === undefined || target === null) continue;
        this.oneCell(paper, x, row * ROW - view.scrollTop, target, tile.winners[index] === row);
      }
    }
  }

  oneCell(paper, x, y, target, isWinner) {
    const [wide, high] = [this.cell - Math.min(3, this.cell / 5), ROW - 3];
    paper.drawImage(this.stamp(target, wide, high, isWinner), x, y, wide, high);
    if (!isWinner) return;
    const [cx, cy, r] = [x + wide / 2, y + high / 2, 3.4];
    paper.fillStyle = this.paint.card;
    paper.strokeStyle = this.paint.plain;
    paper.lineWidth = 1;
    paper.beginPath();
    paper.moveTo(cx, cy - r);
    paper.lineTo(cx + r, cy);
    paper.lineTo(cx, cy + r);
    paper.lineTo(cx - r, cy);
    paper.closePath();
    paper.fill();
    paper.stroke();
  }

  /** A cell of a server, drawn once: thousands are in view, and hatching takes long. */
  stamp(target, wide, high, isWinner) {
    const key = `${target}${isWinner}`;
    if (this.stamps.has(key)) return this.stamps.get(key);
    const made = make("canvas", { width: Math.max(1, Math.round(wide * devicePixelRatio)), height: Math.round(high * devicePixelRatio) });
    const paper = made.getContext("2d");
    paper.scale(made.width / wide, made.height / high);
    paper.fillStyle = target < 0 ? this.paint.itself : this.colours[target % SERVER_COLOURS];
    paper.fillRect(0, 0, wide, high);
    if (target >= FIRST_HATCHED) this.hatch(paper, wide, high, isWinner ? "" : String(target));
    this.stamps.set(key, made);
    return made;
  }

  /** Colours alone do not tell many servers apart. */
  hatch(paper, wide, high, number) {
    paper.strokeStyle = this.paint.card;
    paper.lineWidth = 0.8;
    paper.beginPath();
    for (let at = 0; at < wide + high; at += 4) {
      paper.moveTo(Math.min(at, wide), Math.max(0, at - wide));
      paper.lineTo(Math.max(0, at - high), Math.min(at, high));
    }
    paper.stroke();
    if (this.cell < 12) return;
    paper.fillStyle = this.paint.on;
    paper.font = "700 9px system-ui, sans-serif";
    paper.textAlign = "center";
    paper.fillText(number, wide / 2, high - 1.5);
  }

  lines(paper, view) {
    paper.strokeStyle = this.paint.bad;
    paper.lineWidth = 1.4;
    paper.setLineDash([4, 3]);
    for (const round of new Set((rounds.columns?.marks ?? []).map((each) => each.round))) {
      if (round - 1 < view.first - 1 || round - 1 > view.last + 1) continue;
      const x = this.left + (round - 1) * this.cell - view.scrollLeft - 1.5;
      paper.beginPath();
      paper.moveTo(x, 0);
      paper.lineTo(x, this.high);
      paper.stroke();
    }
    paper.setLineDash([]);
  }

  labels(paper, view) {
    paper.fillStyle = this.paint.text;
    paper.font = "10.5px system-ui, sans-serif";
    paper.textAlign = "right";
    for (let row = view.top; row <= view.bottom; row++) {
      const y = row * ROW - view.scrollTop + 9;
      if (y < this.high - AXIS + 4) paper.fillText(`device ${row}`, this.left - 8, y);
    }
    paper.textAlign = "center";
    const every = [1, 2, 5, 10, 20, 50, 100].find((each) => each * this.cell >= 44) ?? 200;
    for (let column = view.first; column <= view.last; column++) {
      if ((column + 1) % every && column) continue;
      const x = this.left + (column + 0.5) * this.cell - view.scrollLeft;
      if (x >= this.left && x + 12 < this.wide) paper.fillText(String(column + 1), x, this.high - 5);
    }
  }

  tile(column, row) {
    const key = `${column}:${row}`;
    const found = this.tiles.get(key);
    if (!found && !this.asked.has(key)) this.want(key);
    return found;
  }

  want(key) {
    this.asked.add(key);
    this.waiting.push(key);
    this.fetch();
  }

  /** The newest wish first: who scrolls past does not wait for what is gone by. */
  async fetch() {
    if (this.busy >= AT_ONCE || !this.waiting.length) return;
    this.busy = (this.busy ?? 0) + 1;
    const key = this.waiting.pop();
    const [column, row] = key.split(":").map(Number);
    const from = column * TILE_ROUNDS + 1;
    const first = row * TILE_DEVICES;
    const asked = { from, to: Math.min(this.rounds, from + TILE_ROUNDS - 1), first, last: Math.min(this.devices, first + TILE_DEVICES) - 1 };
    try {
      const tile = await ask("assignments", asked);
      this.tiles.set(key, tile);
      if (this.tiles.size > MOST_TILES) this.tiles.delete(this.tiles.keys().next().value);
      this.later();
    } catch {
      // asked again when it is next in view
    }
    this.asked.delete(key);
    this.busy--;
    this.fetch();
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.left + this.window.scrollLeft) / this.cell);
    const row = Math.floor((event.clientY - box.top + this.window.scrollTop) / ROW);
    if (event.clientX - box.left < this.left || column < 0 || column >= this.rounds || row >= this.devices) return say(this.said, "");
    const tile = this.tiles.get(`${Math.floor(column / TILE_ROUNDS)}:${Math.floor(row / TILE_DEVICES)}`);
    const target = tile?.rows[row - tile.first]?.[column + 1 - tile.from];
    const by = target === undefined || target === null ? "not known" : target < 0 ? "itself" : `server ${target}`;
    say(this.said, `round ${column + 1}, device ${row}: ${by}`);
    choose(column + 1, this);
  }
}
