// Charts that answer: the pointer, a finger and the arrow keys read each step, and a drag opens the time that it covers.
// They draw and say what stands in the page: in the table of a chart, or beside the strip of a line of the status page.
"use strict";

const DAY = 86_400_000;
const LONG = {
  hour: { dateStyle: "medium", timeStyle: "short" },
  day: { weekday: "short", day: "numeric", month: "short", year: "numeric" },
  month: { month: "long", year: "numeric" },
};
const SHORT = { hour: { hour: "numeric", minute: "2-digit" }, day: { day: "numeric", month: "short" }, month: { month: "short", year: "numeric" } };
const isoDay = (milliseconds) => new Date(milliseconds).toISOString().slice(0, 10);
// Hours are said in the reader's time zone; days and months are those of UTC.
const inWords = (at, format) => new Intl.DateTimeFormat(undefined, at.includes("T") ? format : { ...format, timeZone: "UTC" }).format(new Date(at));

function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}
const shape = (parent, name, attributes) => parent.appendChild(setAll(document.createElementNS("http://www.w3.org/2000/svg", name), attributes));
const element = (parent, name, text = "", className = "") => parent.appendChild(Object.assign(document.createElement(name), { textContent: text, className }));
const swatch = (parent, look) => {
  const svg = shape(parent, "svg", { class: "swatch", viewBox: "0 0 10 10", "aria-hidden": "true" });
  if (look === "before") shape(svg, "path", { class: look, d: "M0 5h10" });
  else shape(svg, "rect", { class: look, width: 10, height: 10 });
};

// An SVG whose width is that of `count` equal steps. `describe` returns the title of a step and its lines, each with a name,
// and perhaps a value and a look; `open`, if it is given, opens the steps from one to another.
class Reader {
  constructor(svg, { count, label, describe, open = null }) {
    Object.assign(this, { svg, count, describe, open, step: count - 1, anchor: null, pressed: null });
    this.note = element(svg.parentElement, "div", "", "readout");
    this.mark = shape(svg, "rect", { class: "mark", height: "100%", visibility: "hidden" });
    setAll(svg, { tabindex: 0, role: "slider", "aria-label": label, "aria-valuemin": 1, "aria-valuemax": count });
    this.hide();
    this.say(describe(this.step));
    this.listen();
  }

  listen() {
    const { svg } = this;
    svg.addEventListener("pointermove", (event) => {
      if (this.pressed !== null && this.anchor === null && Math.abs(event.clientX - this.pressed) > 4) this.anchor = this.step;
      this.show(this.under(event));
    });
    svg.addEventListener("pointerdown", (event) => {
      this.show(this.under(event));
      if (!this.open || event.pointerType === "touch" || event.button !== 0) return; // a finger reads
      this.pressed = event.clientX;
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointerup", () => {
      if (this.anchor !== null && this.pressed !== null) this.open(...this.span);
      this.anchor = this.pressed = null;
    });
    svg.addEventListener("pointercancel", () => this.hide());
    svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.hide(); });
    document.addEventListener("pointerdown", (event) => { if (!svg.contains(event.target)) this.hide(); });
    svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) this.show(this.step); });
    svg.addEventListener("blur", () => this.hide());
    svg.addEventListener("keydown", (event) => this.press(event));
  }

  get span() {
    const anchor = this.anchor ?? this.step;
    return [Math.min(anchor, this.step), Math.max(anchor, this.step)];
  }

  under(event) {
    const box = this.svg.getBoundingClientRect();
    return Math.floor(((event.clientX - box.left) / box.width) * this.count);
  }

  press(event) {
    const { step, count } = this;
    const to = { ArrowLeft: step - 1, ArrowDown: step - 1, ArrowRight: step + 1, ArrowUp: step + 1, Home: 0, End: count - 1 }[event.key];
    if (event.key === "Escape") this.hide();
    if (event.key === "Enter" && this.open && !this.note.hidden) this.open(...this.span);
    if (to === undefined) return;
    event.preventDefault();
    this.anchor = event.shiftKey && this.open ? this.anchor ?? step : null;
    this.show(to);
  }

  show(step) {
    this.step = Math.max(0, Math.min(this.count - 1, step));
    const [from, to] = this.span;
    setAll(this.mark, { x: from, width: to - from + 1, visibility: "visible" });
    const found = this.describe(this.step);
    this.say(found);
    this.write(found);
  }

  say({ title, lines }) {
    const words = [title, ...lines.map(({ name, value = "" }) => `${name} ${value}`.trim())].join("; ");
    setAll(this.svg, { "aria-valuenow": this.step + 1, "aria-valuetext": words });
  }

  write({ title, lines }) {
    const { note, svg, step, count } = this;
    note.replaceChildren();
    element(note, "strong", title);
    for (const { name, value, look } of lines) {
      const line = element(note, "p", "", look === "total" ? look : "");
      const first = element(line, "span");
      if (look && look !== "total") swatch(first, look);
      first.append(name);
      if (value !== undefined) element(line, "span", value);
    }
    note.hidden = false;
    // Beside the step, on the side that has more room.
    const width = svg.clientWidth, wide = width / count;
    const left = (step + 0.5) * 2 < count ? (step + 1) * wide + 8 : step * wide - 8 - note.offsetWidth;
    note.style.left = `${Math.max(0, Math.min(left, width - note.offsetWidth))}px`;
  }

  hide() {
    this.note.hidden = true;
    this.mark.setAttribute("visibility", "hidden");
    this.anchor = this.pressed = null;
  }
}

// --- Bars of a table -------------------------------------------------------------------------------------------------

function readTable(figure) {
  const heads = [...figure.querySelectorAll("thead th[data-of]")];
  const moment = (at) => (figure.dataset.step === "hour" ? at : at?.slice(0, 10));
  return [...figure.querySelectorAll("tbody tr")].reverse().map((row) => {
    const cells = [...row.querySelectorAll("td")].map((cell, place) => ({
      of: heads[place].dataset.of, name: heads[place].textContent, words: cell.textContent, value: Number(cell.dataset.value), at: moment(cell.dataset.at),
    }));
    const [total, ...parts] = cells.filter(({ of }) => of !== "before");
    return { at: moment(row.dataset.at), total, parts, before: cells.find(({ of, at }) => of === "before" && at) };
  });
}

// Amounts are only heights here: what is said of them are the words of the table.
function drawBars(svg, bars, top) {
  const height = (value) => (value / top) * 1000;
  shape(svg, "path", { class: "grid", d: `M0 0H${bars.length}M0 500H${bars.length}` });
  for (const [place, { total, parts }] of bars.entries()) {
    let sum = 0;
    for (const { of, value } of parts.length ? parts : [{ ...total, of: 0 }]) {
      if (!value) continue;
      sum += value;
      const tall = Math.max(height(value), 4); // visible
      shape(svg, "rect", { class: `part-${of}`, x: place + 0.1, width: 0.8, y: 1000 - Math.max(height(sum), tall), height: tall });
    }
  }
  const points = bars.flatMap(({ before }, place) => (before ? [`${place + 0.5},${1000 - height(before.value)}`] : []));
  shape(svg, "polyline", { class: "before", points: points.join(" ") });
}

function drawDays(holder, bars, step) {
  const days = element(holder, "p", "", "graph-days small"), last = bars.length - 1;
  const stride = Math.ceil(bars.length / Math.max(2, Math.floor(holder.clientWidth / 100)));
  for (let place = last; place >= 0; place -= stride) {
    const day = element(days, "span", inWords(bars[place].at, SHORT[step]));
    day.style.left = `${(100 * (place + 0.5)) / bars.length}%`;
    if (place === last && holder.clientWidth < 60 * bars.length) day.className = "last"; // else it would stand beyond the plot
  }
}

function describeBar({ at, total, parts, before }, step) {
  const lines = parts.filter(({ value }) => value).map(({ of, name, words }) => ({ name, value: words, look: `part-${of}` }));
  lines.push({ name: total.name, value: total.words, look: "total" });
  if (before) lines.push({ name: inWords(before.at, LONG[step]), value: before.words, look: "before" });
  return { title: inWords(at, LONG[step]), lines };
}

for (const figure of document.querySelectorAll(".graph")) {
  const { step, top, address, first, last } = figure.dataset;
  const bars = readTable(figure), holder = figure.querySelector(".graph-bars"), title = figure.querySelector("figcaption span");
  const svg = shape(holder, "svg", { viewBox: `0 0 ${bars.length} 1000`, preserveAspectRatio: "none", "aria-describedby": "graph-keys" });
  drawBars(svg, bars, Number(top));
  drawDays(holder, bars, step);
  const open = (from, to) => {
    const chosen = new URL(address, location.href);
    chosen.searchParams.set("from", bars[from].at < first ? first : bars[from].at);
    chosen.searchParams.set("to", to + 1 < bars.length ? isoDay(Date.parse(bars[to + 1].at) - DAY) : last);
    location.assign(chosen);
  };
  new Reader(svg, { count: bars.length, label: title.textContent, describe: (place) => describeBar(bars[place], step), open: step === "hour" ? null : open });
}

// --- The days of a line of the status page ---------------------------------------------------------------------------

const incidents = [...document.querySelectorAll(".incident[data-from]")].map(({ id, dataset: { from, until } }) => ({
  from, until, name: document.querySelector(`#${id} h3`).firstChild.textContent.trim(),
}));
for (const svg of document.querySelectorAll("svg[data-days]")) {
  const percents = svg.dataset.days.split(" ");
  const describe = (place) => {
    const day = isoDay(Date.parse(svg.dataset.last) - (percents.length - 1 - place) * DAY);
    const answered = percents[place] === "-" ? "Too few requests to say" : `${percents[place]} % of requests answered`;
    const lasting = incidents.filter(({ from, until }) => from <= day && (!until || day <= until));
    return { title: inWords(day, LONG.day), lines: [{ name: answered }, ...lasting.map(({ name }) => ({ name: `Incident: ${name}` }))] };
  };
  new Reader(svg, { count: percents.length, label: svg.getAttribute("aria-label"), describe });
}
