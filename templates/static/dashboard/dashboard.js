// Enhancements. Every page works without scripts.
"use strict";

// Show times in the reader's time zone, with UTC in the title. Days stay UTC days. Staff, who compare times, see them in UTC. To the
// second, the year is said only of other years: rows are short.
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const toTheSecond = { month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit" };
const seconds = new Intl.DateTimeFormat(undefined, toTheSecond);
const secondsOfYear = new Intl.DateTimeFormat(undefined, { year: "numeric", ...toTheSecond });
const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
for (const time of document.querySelectorAll("time[datetime]:not([data-utc])")) {
  const moment = new Date(time.dateTime);
  const exact = moment.getFullYear() === new Date().getFullYear() ? seconds : secondsOfYear;
  const format = !time.dateTime.includes("T") ? days : "seconds" in time.dataset ? exact : moments;
  time.textContent = format.format(moment);
}

// On a phone the navigation is one line, which is moved sideways: show where the reader is.
document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Contents beside a long page say which of its sections is at the top, and show the page that is read.
const contents = document.querySelector(".contents");
if (contents && getComputedStyle(contents).position === "sticky") {
  const current = [...contents.querySelectorAll("[aria-current]")].at(-1);
  if (current) contents.scrollTop = current.offsetTop - contents.clientHeight / 2;
  const links = [...contents.querySelectorAll("a")].filter((link) => link.hash && link.pathname === location.pathname);
  const sections = links.map((link) => document.getElementById(link.hash.slice(1)));
  const mark = () => {
    const place = sections.findLastIndex((section) => section.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((link, index) => (index === place ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
  };
  mark();
  addEventListener("scroll", mark, { passive: true });
}

// A menu closes when the reader turns to something else.
for (const menu of document.querySelectorAll("details.menu")) {
  document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// Beside a time that is said in UTC, say it in the reader's time zone, if that is another.
for (const said of document.querySelectorAll("[data-here]")) {
  const moment = new Date(said.dataset.here);
  if (!moment.getTimezoneOffset()) continue;
  const more = { weekday: { weekday: "long" }, day: { day: "numeric", month: "short" } }[said.dataset.with];
  said.textContent = ` (${moment.toLocaleString(undefined, { hour: "numeric", minute: "2-digit", ...more })} here)`;
}

// The last of the first steps: look for the request that it waits for, for ten minutes at most, as it keeps the session alive.
const awaited = document.querySelector("[data-await-request]");
if (awaited) {
  const until = Date.now() + 600_000;
  const timer = setInterval(async () => {
    if (Date.now() > until) clearInterval(timer);
    if (document.hidden) return;
    const page = await fetch(location.href).then((reply) => (reply.ok ? reply.text() : null), () => null);
    if (page === null || page.includes("data-await-request")) return;
    clearInterval(timer);
    awaited.textContent = awaited.dataset.awaitRequest;
    setTimeout(() => location.reload(), 2_000);
  }, 3_000);
}

// A name that its cell cuts is whole in its title, and where the keyboard or a tap reaches it.
for (const cell of document.querySelectorAll(".cut, .name, #changelist .results :is(td, th)")) {
  const { scrollWidth, clientWidth } = (cell.matches(".name") && cell.firstElementChild) || cell;
  if (scrollWidth <= clientWidth) continue;
  cell.title ||= cell.textContent.trim();
  if (!cell.closest("a") && !cell.querySelector("a, input")) cell.tabIndex = 0;
}

// What is below the cent is in grey. The amount stays one text, which is read and copied as one.
function greyBelowCents() {
  const below = new Highlight();
  for (const place of document.querySelectorAll(".usd, :is(td, dd):not(:has(.usd))")) {
    const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const startContainer = texts.currentNode;
      if (startContainer.parentElement.closest("a")) continue;
      for (const { index, 0: { length }, 1: digits } of startContainer.data.matchAll(/\$[\d,]+\.\d\d(\d+)/g)) {
        const endOffset = index + length;
        below.add(new StaticRange({ startContainer, startOffset: endOffset - digits.length, endContainer: startContainer, endOffset }));
      }
    }
  }
  CSS.highlights.set("below-cent", below);
}
if (CSS.highlights) greyBelowCents();

// Tell a form that the next page has scripts, and streams.
for (const field of document.querySelectorAll("[data-streams]")) field.value = "on";

// A chart of points is one stop of the keyboard: the arrow keys go from point to point, from left to right.
for (const chart of document.querySelectorAll(".plot-area")) {
  const points = [...chart.querySelectorAll("a.point")];
  const left = (point) => parseFloat(point.firstElementChild.getAttribute("cx"));
  points.sort((one, other) => left(one) - left(other));
  for (const point of points.slice(1)) point.tabIndex = -1;
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    const next = points[points.indexOf(document.activeElement) + step];
    if (!step) return;
    event.preventDefault();
    if (!next) return;
    document.activeElement.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

// Ignore a second click while a form is being sent.
for (const form of document.querySelectorAll("form[method=post]:not([data-repeats])")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
}

// Close the exact amount that focus opened.
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.activeElement.matches(".usd")) document.activeElement.blur();
});

// Examples in several languages: who chooses one sees all of them in it, here and on the next page.
const languages = document.querySelectorAll(".code-tabs input");
const choose = (language) => {
  for (const input of languages) input.checked = input.value === language || input.checked;
};
let remembered = null;
try { remembered = localStorage.getItem("language"); } catch { /* the browser keeps nothing */ }
if ([...languages].some((input) => input.value === remembered)) choose(remembered);
for (const input of languages) {
  input.addEventListener("change", () => {
    const top = input.getBoundingClientRect().top;
    choose(input.value);
    scrollBy(0, input.getBoundingClientRect().top - top); // what stands above may have another height now
    try { localStorage.setItem("language", input.value); } catch { /* the same */ }
  });
}

for (const button of document.querySelectorAll("button[data-copy]")) {
  if (!navigator.clipboard) continue;
  const words = [...button.childNodes];
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent.trim());
    button.textContent = "Copied";
    setTimeout(() => button.replaceChildren(...words), 2_000);
  });
}

// Browsers keep pages for the back button in spite of Cache-Control. Clear a secret, which must be shown only once.
window.addEventListener("pagehide", () => {
  for (const element of document.querySelectorAll("[data-once]")) element.textContent = "It was shown once.";
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.forms) delete form.dataset.sent;
  // What the browser kept of filters is what was chosen when the page was left, not what it shows.
  if (event.persisted || performance.getEntriesByType("navigation")[0]?.type === "back_forward") {
    for (const form of document.querySelectorAll("form[data-submits]")) form.reset();
  }
});

// Filters: a change sends the form, typing does after a pause. What was typed meanwhile, the caret and the scroll stay, and the number of
// results is read out: the text of the element that data-submits names. Without scripts the form's button does it.
const TYPED = "input:not([type=checkbox], [type=radio], [type=date])";
const PAUSE_MS = { typed: 500, date: 1_000, key: 400 };
// Of the tab; undefined where the browser blocks it, which costs the focus after each change.
const store = (() => {
  try {
    return sessionStorage;
  } catch {
    return undefined;
  }
})();
let leaving = null;
for (const form of document.querySelectorAll("form[data-submits]")) {
  let timer, isByKey, changed;
  const send = (isTyped) => {
    clearTimeout(timer);
    timer = null;
    if (!form.checkValidity()) return;
    const address = new URL(form.getAttribute("action") ?? "", location.href);
    address.search = new URLSearchParams(new FormData(form));
    const field = form.contains(document.activeElement) ? document.activeElement : changed;
    leaving = { path: address.pathname, isTyped, field };
    // What is typed on is one step back, not one for each pause.
    const isOneStep = isTyped && form.dataset.typed === field.name;
    location[isOneStep ? "replace" : "assign"](address);
  };
  const sendAfter = (pause, isTyped) => {
    clearTimeout(timer);
    timer = setTimeout(send, pause, isTyped);
  };
  for (const button of form.querySelectorAll("button:not([type=button])")) button.hidden = true;
  form.setAttribute("aria-description", "The list changes as you choose.");
  form.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (value === "") formData.delete(name);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(false);
  });
  form.addEventListener("keydown", () => { isByKey = true; });
  form.addEventListener("pointerdown", () => { isByKey = false; });
  form.addEventListener("input", (event) => {
    changed = event.target;
    if (event.target.matches(TYPED) && !event.isComposing) sendAfter(PAUSE_MS.typed, true);
  });
  form.addEventListener("compositionstart", () => clearTimeout(timer)); // a new page would end it
  form.addEventListener("compositionend", () => sendAfter(PAUSE_MS.typed, true));
  form.addEventListener("change", ({ target }) => {
    if (target.matches(TYPED)) return;
    if (target.type === "date" && target.value && target.value < "1000") return; // its year is still being typed
    sendAfter(!isByKey ? 0 : target.type === "date" ? PAUSE_MS.date : PAUSE_MS.key);
  });
  form.addEventListener("focusout", ({ relatedTarget }) => { if (timer && !relatedTarget?.closest("a")) sendAfter(0); });
}

// Who follows a link meanwhile reads what it leads to, without what was typed before.
document.addEventListener("click", ({ target }) => { if (target.closest("a[href]")) leaving = null; });

window.addEventListener("pagehide", () => {
  if (!leaving) return;
  const { path, isTyped, field } = leaving;
  leaving = null; // the browser may keep this page, and show it again
  const { name, type, value, selectionStart, selectionEnd } = field;
  store?.setItem("filters", JSON.stringify({ path, isTyped, name, type, value, selectionStart, selectionEnd, top: scrollY }));
});

const arrived = JSON.parse(store?.getItem("filters") ?? null);
store?.removeItem("filters");
if (arrived?.path === location.pathname) {
  const form = document.querySelector("form[data-submits]");
  const isChoice = ["checkbox", "radio"].includes(arrived.type);
  const field = [...(form?.elements ?? [])].find((each) => each.name && each.name === arrived.name && (!isChoice || each.value === arrived.value));
  if (field) {
    if (field.closest("details")) field.closest("details").open = true;
    field.focus({ preventScroll: true });
    if (arrived.isTyped) form.dataset.typed = field.name;
    if (field.matches(TYPED)) {
      const isBehind = field.value !== arrived.value;
      field.value = arrived.value;
      if (arrived.selectionStart !== null) field.setSelectionRange?.(arrived.selectionStart, arrived.selectionEnd); // of numbers there is none
      if (isBehind) field.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }
  scrollTo(0, arrived.top);
  const status = Object.assign(document.createElement("p"), { className: "hidden", role: "status" });
  document.body.append(status);
  setTimeout(() => { status.textContent = document.getElementById(form?.dataset.submits)?.textContent.trim() ?? ""; }, 300);
}
