// What pages gain where scripts run. Everything works without.
"use strict";

// Times in the reader's zone; the title keeps UTC. Days are UTC days and stay so.
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const days = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
for (const time of document.querySelectorAll("time[datetime]")) {
  const format = time.dateTime.includes("T") ? moments : days;
  time.textContent = format.format(new Date(time.dateTime));
}

// A second click on a form that is under way does nothing.
for (const form of document.querySelectorAll("form[method=post]")) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
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

// Browsers keep pages to come back to, whatever Cache-Control says. What is shown once must not wait there.
window.addEventListener("pagehide", () => {
  for (const element of document.querySelectorAll("[data-once]")) element.textContent = "It was shown once.";
});
window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.forms) delete form.dataset.sent;
});
