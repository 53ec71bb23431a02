// The first request: the page has made the key; this sends the request with it, and shows the reply as it comes.
"use strict";

const exchange = document.getElementById("exchange");
const at = (id) => document.getElementById(id);
const SETTLE_MILLISECONDS = 300; // between two looks at what was charged; longer and longer, as some charges take minutes
const SETTLE_MILLISECONDS_MAX = 15000;

async function send() {
  const began = performance.now();
  const body = new FormData(at("again"));
  const response = await fetch(exchange.dataset.begins, { method: "POST", body, headers: { Accept: "text/event-stream" }, redirect: "manual" });
  if (response.type === "opaqueredirect") throw new Error("You are signed out. Reload the page to sign in again.");
  if (!response.ok) throw new Error(await refusal(response));
  let id = "";
  for await (const event of events(response.body)) {
    if (event.error) throw new Error(event.error.message);
    id = event.id;
    const text = event.choices.map((choice) => choice.delta.content || "").join("");
    if (text && !at("reply").textContent) at("first-token").textContent = `${((performance.now() - began) / 1000).toFixed(2)} s`;
    at("reply").append(text); // as text: markup in it stays text
    at("state").textContent = "Receiving the reply.";
  }
  return id;
}

async function showCharge(id) {
  let charge = { isSettled: false };
  for (let wait = SETTLE_MILLISECONDS; !charge.isSettled; wait = Math.min(wait * 1.5, SETTLE_MILLISECONDS_MAX)) {
    charge = await readCharge(exchange.dataset.charges.replace("ID", id)).catch(() => charge);
    if (!charge.isSettled) await new Promise((resolve) => setTimeout(resolve, wait));
  }
  at("cost").textContent = dollars(nanosOf(charge.costInDollars));
  at("left").textContent = dollars(nanosOf(charge.balanceInDollars));
  at("tokens").textContent = `${charge.promptTokens} in, ${charge.completionTokens} out`;
  at("request").querySelector("a").href = `${exchange.dataset.requests}${id}/`;
  at("request").hidden = false;
}

async function run() {
  at("error").hidden = true;
  at("again").hidden = true;
  at("reply").textContent = "";
  at("state").textContent = "Sending the request.";
  try {
    await showCharge(await send());
    at("state").textContent = "Done. The cost is exact, and booked.";
  } catch (error) {
    at("state").textContent = "";
    at("error").textContent = error.message;
    at("error").hidden = at("again").hidden = false;
  }
}

if (exchange) {
  at("again").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  run();
}
