// Enhancements. Every page works without scripts.
"use strict";

// Show times in the reader's time zone, with UTC in the title. Days stay UTC days. Staff, who compare times, see them in UTC.
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const seconds = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
for (const time of document.querySelectorAll("time[datetime]:not([data-utc])")) {
  const format = !time.dateTime.includes("T") ? days : "seconds" in time.dataset ? seconds : moments;
  time.textContent = format.format(new Date(time.dateTime));
}

// On a phone the navigation is one line, which is moved sideways: show where the reader is.
document.querySelector(".rail [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

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
for (const cell of document.querySelectorAll(".cut, #changelist .results :is(td, th)")) {
  if (cell.scrollWidth <= cell.clientWidth) continue;
  cell.title ||= cell.textContent.trim();
  if (!cell.matches("a") && !cell.querySelector("a, input")) cell.tabIndex = 0;
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
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}

// Browsers keep pages for the back button in spite of Cache-Control. Clear a secret, which must be shown only once.
window.addEventListener("pagehide", () => {
  for (const element of document.querySelectorAll("[data-once]")) element.textContent = "It was shown once.";
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.forms) delete form.dataset.sent;
});
