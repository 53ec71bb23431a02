// A model's page: each change of a request shows what it costs, computed by the gateway. Without scripts the form's button does it.
"use strict";

const request = document.querySelector("form[data-costs]");
const costs = document.getElementById(request.dataset.costs);
const said = Object.assign(document.createElement("p"), { className: "hidden", role: "status" });
const PAUSE_WHILE_TYPED_MS = 150;
let timer, newest;

async function update() {
  if (!request.checkValidity()) return; // the field says so, as its bounds are the browser's, too
  const address = new URL(location.pathname, location.href);
  address.search = new URLSearchParams(new FormData(request));
  const asked = newest = {};
  const page = await fetch(address).then((reply) => (reply.ok ? reply.text() : null), () => null);
  if (page === null || asked !== newest) return;
  const found = new DOMParser().parseFromString(page, "text/html").getElementById(costs.id);
  if (found.querySelector(".error")) return location.assign(address); // the fields say what is wrong
  history.replaceState(null, "", address);
  costs.replaceChildren(...found.childNodes);
  if (CSS.highlights) greyBelowCents();
  said.textContent = document.getElementById("cost-of-one").textContent.replace(/\s+/g, " ").trim();
}

document.body.append(said);
for (const button of request.querySelectorAll("button")) button.hidden = true;
request.addEventListener("input", ({ target }) => {
  clearTimeout(timer);
  timer = setTimeout(update, target.matches("select") ? 0 : PAUSE_WHILE_TYPED_MS);
});
request.addEventListener("submit", (event) => {
  event.preventDefault();
  update();
});
