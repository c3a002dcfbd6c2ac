// Lines and stacked areas over the rounds. An offence is a dashed red line on each, an exclusion a tinted band.

import { colour, faded, onTheme, say, seconds, visible } from "./api.js";
import { choose, onChoice, onRounds, rounds } from "./rounds.js";

const TERMS = [["mine", "c0"], ["consensus", "c3"], ["learn", "c2"]];
const PHASES = { train: "c0", gossip: "c1", seal: "c2", evaluate: "c3", plan: "c4", close: "c7", model: "c5", verify: "c6" };
const FONT = "12px system-ui, sans-serif";
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000];
const drawn = [];

class Chart {
  /** `layers(columns)` gives what is drawn: series, scales, axes. */
  constructor(place, layers, options = {}) {
    Object.assign(this, { place, layers, options, plot: null, columns: null, isQuiet: false });
    this.legends = options.legend ? [...document.querySelectorAll(`[data-legend="${CSS.escape(options.legend())}"]`)] : [];
    new ResizeObserver(() => this.resize()).observe(place);
    onTheme(() => this.draw());
    drawn.push(this);
  }

  show(columns) {
    const known = this.plot && this.shape === this.shapeOf(columns);
    this.columns = columns;
    if (!known) return this.draw();
    this.made = this.layers(columns);
    this.plot.setData(this.made.data);
    this.say(null);
  }

  shapeOf(columns) {
    return this.layers(columns).series.map((each) => each.name).join();
  }

  draw() {
    if (!this.columns || typeof uPlot === "undefined") return;
    this.plot?.destroy();
    this.place.replaceChildren();
    this.made = this.layers(this.columns);
    this.shape = this.made.series.map((each) => each.name).join();
    if (!this.columns.round.length) return;
    this.plot = new uPlot(this.settings(), this.made.data, this.place);
    this.say(null);
  }

  settings() {
    const [soft, line] = [colour("soft"), colour("line")];
    const axis = { stroke: soft, font: FONT, grid: { stroke: line, width: 1 }, ticks: { show: false }, gap: 6 };
    const made = this.made;
    return {
      width: Math.max(120, this.place.clientWidth),
      height: this.place.clientHeight,
      legend: { show: false },
      padding: [10, made.axes.length > 1 ? 4 : 24, 0, 0],
      scales: { x: { time: false, range: (_, low, high) => (low === high ? [low - 0.5, high + 0.5] : [low, high]) }, ...made.scales },
      axes: [{ ...axis, incrs: STEPS, space: 60, size: 30 }, ...made.axes.map((each) => ({ ...axis, size: 54, ...each }))],
      series: [{}, ...made.series.map((each) => this.line(each))],
      bands: made.bands ?? [],
      cursor: { y: false, sync: { key: "rounds", setSeries: false }, drag: { x: true, y: false }, points: { size: 6 } },
      hooks: { drawClear: [(plot) => this.tint(plot)], draw: [(plot) => this.mark(plot)], setCursor: [(plot) => this.moved(plot)] },
    };
  }

  line(each) {
    const stroke = colour(each.colour);
    const few = (plot) => plot.data[0].length < 3;
    return {
      scale: each.scale ?? "y", stroke, width: each.width ?? 1.6, dash: each.dash, spanGaps: true, points: { show: few },
      fill: each.fill ? faded(stroke, each.fill) : undefined,
    };
  }

  tint(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = colour("band");
    for (const each of this.columns.bands) {
      const left = Math.max(bbox.left, plot.valToPos(each.from - 0.5, "x", true));
      const right = Math.min(bbox.left + bbox.width, plot.valToPos(each.through + 0.5, "x", true));
      if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.restore();
  }

  mark(plot) {
    const { ctx, bbox } = plot;
    const size = 5 * devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("bad");
    ctx.lineWidth = 1.4 * devicePixelRatio;
    for (const round of new Set(this.columns.marks.map((each) => each.round))) {
      const x = plot.valToPos(round, "x", true);
      if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) continue;
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x - size, bbox.top - size);
      ctx.lineTo(x + size, bbox.top - size);
      ctx.lineTo(x, bbox.top + size);
      ctx.fill();
    }
    ctx.restore();
  }

  moved(plot) {
    const index = plot.cursor.idx;
    this.say(index);
    if (this.isQuiet || index === null || index === undefined) return;
    choose(plot.data[0][index], this);
  }

  /** Point at a round that somebody else has chosen. */
  point(round) {
    if (!this.plot) return;
    this.isQuiet = true;
    this.plot.setCursor({ left: this.plot.valToPos(round, "x"), top: 10 });
    this.isQuiet = false;
  }

  say(index) {
    const at = index ?? this.made.data[0].length - 1;
    const values = this.made.values(at);
    for (const legend of this.legends) {
      for (const place of legend.querySelectorAll("[data-value]")) {
        if (place.dataset.value in values) say(place, values[place.dataset.value]);
      }
    }
    if (this.options.note) this.options.note(index === null ? null : this.made.data[0][at]);
  }

  resize() {
    if (this.plot && this.place.clientWidth) this.plot.setSize({ width: this.place.clientWidth, height: this.place.clientHeight });
  }
}

// --- what is drawn

function learning(columns) {
  const percent = (_, ticks) => ticks.map((each) => `${+(100 * each).toFixed(1)} %`);
  return {
    data: [columns.round, columns.accuracy, columns.loss],
    series: [
      { name: "accuracy", colour: "c0", scale: "share", width: 2, fill: 0.07 },
      { name: "loss", colour: "c1", scale: "loss", width: 1.6, dash: [5, 4] },
    ],
    scales: {},
    axes: [{ scale: "share", values: percent }, { scale: "loss", side: 1, grid: { show: false } }],
    values: (at) => ({
      accuracy: columns.accuracy[at] === null || columns.accuracy[at] === undefined ? "–" : `${(100 * columns.accuracy[at]).toFixed(2)} %`,
      loss: columns.loss[at] === null || columns.loss[at] === undefined ? "–" : columns.loss[at].toPrecision(3),
    }),
  };
}

/** Areas on each other, the last name at the bottom. */
function stacked(columns, parts, more) {
  const sums = [];
  let below = columns.round.map(() => 0);
  for (const { values } of [...parts].reverse()) {
    below = below.map((each, index) => each + (values[index] ?? 0));
    sums.unshift(below);
  }
  const fills = parts.map((each, index) => (index + 1 < parts.length ? { series: [index + 1, index + 2], fill: faded(colour(each.colour), 0.42) } : null));
  return {
    data: [columns.round, ...sums],
    series: parts.map((each, index) => ({ name: each.name, colour: each.colour, width: 1.2, fill: index + 1 === parts.length ? 0.42 : 0 })),
    bands: fills.filter(Boolean),
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.06 : 1] } },
    axes: [{ scale: "y", values: (_, ticks) => ticks.map((each) => `${each} s`) }],
    values: (at) => ({ ...Object.fromEntries(parts.map((each) => [each.name, seconds(each.values[at])])), ...more(at, sums) }),
  };
}

const kind = () => document.querySelector('input[name="latency"]:checked')?.value ?? document.querySelector("[data-kind]")?.dataset.kind ?? "paper";

function latency(columns) {
  const found = columns.latency[kind()] ?? {};
  const parts = TERMS.map(([name, at]) => ({ name, colour: at, values: found[name] ?? [] }));
  return stacked(columns, parts, (at) => ({ T: seconds(found.T?.[at]), T_wall: seconds(found.T_wall?.[at]) }));
}

function phases(columns) {
  const known = Object.keys(PHASES).filter((name) => name in columns.seconds);
  const others = Object.keys(columns.seconds).filter((name) => !(name in PHASES));
  const parts = [...known, ...others].map((name) => ({ name, colour: PHASES[name] ?? "c6", values: columns.seconds[name] }));
  return stacked(columns, parts, (at, sums) => ({ total: seconds(sums.length ? sums[0][at] : null) }));
}

function note(round) {
  const place = document.querySelector(".note.marks");
  if (!place || !rounds.columns) return;
  place.dataset.plain ??= place.textContent;
  const found = rounds.columns.marks.filter((each) => each.round === round);
  say(place, found.length ? visible(`round ${round}: ${found.map((each) => each.text || each.who).join("; ")}`.slice(0, 300)) : place.dataset.plain);
}

function against(columns) {
  const totals = ["measured", "paper", "real"].map((name) => columns.latency[name]?.T ?? columns.round.map(() => null));
  return {
    data: [columns.round, ...totals],
    series: [
      { name: "measured", colour: "c0", width: 2 },
      { name: "paper", colour: "c1", dash: [6, 4] },
      { name: "real", colour: "c2", dash: [2, 3] },
    ],
    scales: {},
    axes: [{ scale: "y", values: (_, ticks) => ticks.map((each) => `${each} s`) }],
    values: (at) => ({ measured: seconds(totals[0][at]), paper: seconds(totals[1][at]), real: seconds(totals[2][at]) }),
  };
}

const KNOWN = {
  against: (place) => new Chart(place, against, { legend: () => "against" }),
  learning: (place) => new Chart(place, learning, { legend: () => "learning", note }),
  latency: (place) => new Chart(place, latency, { legend: () => `latency-${kind()}` }),
  phases: (place) => new Chart(place, phases, { legend: () => "phases" }),
};

export function startCharts() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    const made = KNOWN[place.dataset.chart]?.(place);
    if (made) onRounds((columns) => made.show(columns));
    if (made && place.dataset.chart === "latency") switchable(made);
  }
  onChoice((round, from) => {
    if (from instanceof Chart) return; // its own group moves together
    drawn.find((each) => each.plot)?.point(round);
  });
}

function switchable(chart) {
  const all = [...document.querySelectorAll("[data-kind]")];
  for (const button of document.querySelectorAll('input[name="latency"]')) {
    button.addEventListener("change", () => {
      for (const each of all) each.hidden = each.dataset.kind !== kind();
      chart.legends = [...document.querySelectorAll(`[data-legend="${CSS.escape(`latency-${kind()}`)}"]`)];
      chart.draw();
    });
  }
}
