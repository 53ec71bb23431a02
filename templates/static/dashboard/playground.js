// The playground: a conversation. The reply of the form streams, with its cost. Without scripts the page shows the whole reply.
"use strict";

const form = document.getElementById("playground");
const stop = document.getElementById("stop");
const at = (id) => document.getElementById(id);
const LETTERS_PER_TOKEN = 4; // an estimate, until the reply says how many tokens it has

for (const element of document.querySelectorAll("[data-script]")) element.hidden = false;

// --- The conversation: the messages so far. The form sends them, as the gateway stores none.

let turns = JSON.parse(form.elements.earlier.value || "[]");
let isKept = turns.length > 0; // whether the turn that is shown last is among them
let wholeCost = 0;

function keepTurn(prompt, text) {
  turns.push({ role: "user", content: prompt }, { role: "assistant", content: text });
  form.elements.earlier.value = JSON.stringify(turns);
  isKept = true;
}

function moveTurn(who, text) {
  const moved = document.createElement("p"), speaker = document.createElement("span");
  moved.className = `turn ${who === "You" ? "user" : "assistant"}`;
  speaker.className = "hidden";
  speaker.textContent = `${who}: `;
  moved.append(speaker, text);
  at("asked").before(moved);
}

// Show what was asked, after the turn before. One without a reply is not part of the conversation: the next takes its place.
function showTurn(prompt) {
  const asked = at("asked").querySelector("[data-text]");
  if (isKept) for (const [who, text] of [["You", asked.textContent], ["Model", at("reply").textContent]]) moveTurn(who, text);
  isKept = false;
  asked.textContent = prompt;
  at("asked").hidden = at("reply").hidden = false;
  at("hint").hidden = true;
  at("anew").hidden = false;
}

form.elements.prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.requestSubmit();
});

// --- The request as code

function requestOfForm() {
  const given = new FormData(form);
  const request = { model: given.get("model"), messages: [] };
  if (given.get("system")) request.messages.push({ role: "system", content: given.get("system") });
  request.messages.push(...turns);
  request.messages.push({ role: "user", content: given.get("prompt") || "Hello" });
  for (const name of ["max_tokens", "temperature"]) if (given.get(name)) request[name] = Number(given.get(name));
  return request;
}

function showCode() {
  const code = JSON.stringify(requestOfForm(), null, 2);
  for (const element of document.querySelectorAll("[data-request]")) element.textContent = code;
}
form.addEventListener("input", showCode);
showCode();

// --- The reply

const dollars = (amount) => "$" + amount.toFixed(amount >= 0.01 || !amount ? 2 : 6);
const exactly = (amount) => `exactly $${amount.toFixed(9).replace(/0{1,7}$/, "")}`;

function estimate(letters) {
  const price = form.elements.model.selectedOptions[0].dataset;
  const prompt = [...turns, { content: sentPrompt }, { content: form.elements.system.value }].reduce((sum, { content }) => sum + content.length, 0);
  const nanosPerMillion = prompt * price.inputNanos + letters * price.outputNanos;
  return nanosPerMillion / LETTERS_PER_TOKEN / 1e6 / 1e9;
}

function show(id, text) {
  at(id).textContent = text;
}

function fail(words) {
  show("error", words);
  at("error").hidden = false;
  show("state", "");
}

function begin() {
  at("error").hidden = at("request").hidden = true;
  stop.hidden = false;
  for (const id of ["reply", "cost-kind"]) show(id, "");
  for (const id of ["cost", "tokens", "first-token"]) show(id, "–");
  show("state", "Sent.");
  at("turns").scrollTop = at("turns").scrollHeight;
}

function showCharge(dollarsCharged, promptTokens, completionTokens) {
  show("tokens", `${promptTokens} in, ${completionTokens} out`);
  show("cost", dollars(dollarsCharged));
  at("cost").title = exactly(dollarsCharged);
  show("cost-kind", "charged");
  show("whole-cost", dollars((wholeCost += dollarsCharged)));
}

function linkRequest(id) {
  const link = at("request").querySelector("a");
  link.href = `${link.dataset.requests}${id}/`;
  at("request").hidden = false;
}

function showEnd(usage, isCut) {
  if (usage && usage.cost !== null) showCharge(usage.cost, usage.prompt_tokens, usage.completion_tokens);
  else if (usage) show("tokens", `${usage.prompt_tokens} in, ${usage.completion_tokens} out`);
  show("state", isCut ? "The reply reached your maximum output tokens." : "Done.");
}

async function* events(body) {
  const decoder = new TextDecoder();
  let rest = "";
  for (const reader = body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: ") && line !== "data: [DONE]") yield JSON.parse(line.slice(6));
  }
}

// --- A stopped reply: some providers finish it all the same, and then charge for all of it

const SETTLE_MILLISECONDS = 1000; // between two looks; longer and longer, as some replies take minutes
const SETTLE_MILLISECONDS_MAX = 15000;

async function readCharge(id) {
  const response = await fetch(at("request").dataset.charges.replace("ID", id), { redirect: "manual" });
  return response.ok ? response.json() : { isSettled: false };
}

async function settle(sent) {
  if (!sent.id) return show("state", "Stopped before the first token. See Requests for what it cost, if anything.");
  show("cost-kind", "being settled");
  show("cost", `at most ${dollars(sent.maxCost)}`);
  show("state", "Stopped. The charge is being settled.");
  for (let wait = SETTLE_MILLISECONDS; sent === latest; wait = Math.min(wait * 1.5, SETTLE_MILLISECONDS_MAX)) {
    const charge = await readCharge(sent.id).catch(() => ({ isSettled: false }));
    if (sent !== latest) return; // another request is shown by now
    if (charge.isSettled) {
      showCharge(Number(charge.costInDollars), charge.promptTokens, charge.completionTokens);
      return show("state", `Stopped. ${Number(charge.costInDollars) ? "What was generated is charged." : "Nothing is charged."}`);
    }
    show("state", "Stopped. The provider finishes the reply, and all of it is charged. The charge is being settled.");
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function receive(response, began, sent) {
  let letters = 0, usage = null, isCut = false;
  for await (const event of events(response.body)) {
    if (event.error) throw new Error(event.error.message);
    if (!sent.id) linkRequest((sent.id = event.id));
    usage = event.usage || usage;
    for (const choice of event.choices) {
      const text = choice.delta.content || "";
      const reasoning = choice.delta.reasoning_content || choice.delta.reasoning || "";
      if (!letters && (text || reasoning)) {
        show("first-token", `${((performance.now() - began) / 1000).toFixed(2)} s`);
        show("state", "Receiving the reply.");
      }
      letters += text.length + reasoning.length;
      const isAtEnd = at("turns").scrollHeight - at("turns").scrollTop - at("turns").clientHeight < 40;
      at("reply").append(text); // as text: markup in it stays text
      if (isAtEnd) at("turns").scrollTop = at("turns").scrollHeight;
      isCut = isCut || choice.finish_reason === "length";
    }
    show("cost", `about ${dollars(estimate(letters))}`);
    show("cost-kind", "so far");
  }
  showEnd(usage, isCut);
  if (!at("reply").textContent) return;
  keepTurn(sentPrompt, at("reply").textContent);
  if (form.elements.prompt.value === sentPrompt) form.elements.prompt.value = "";
  showCode();
}

async function refusal(response) {
  const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
  return isJson ? (await response.json()).error.message : `The gateway replied ${response.status}. Reload the page and try again.`;
}

async function send(signal, sent) {
  const began = performance.now();
  const headers = { Accept: "text/event-stream" };
  const response = await fetch(form.action, { method: "POST", body: new FormData(form), headers, signal, redirect: "manual" });
  if (response.type === "opaqueredirect") return fail("You are signed out. Reload the page to sign in again.");
  if (!response.ok) return fail(await refusal(response));
  sent.maxCost = Number(response.headers.get("x-gateway-max-cost"));
  show("state", `Waiting for the first token. At most ${dollars(sent.maxCost)} is charged.`);
  await receive(response, began, sent);
}

let latest = null; // the request that the page shows
let sentPrompt = "";

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!stop.hidden) return;
  const running = new AbortController();
  stop.onclick = () => running.abort();
  const sent = (latest = { id: "", maxCost: 0 });
  sentPrompt = form.elements.prompt.value;
  showTurn(sentPrompt);
  begin();
  try {
    await send(running.signal, sent);
  } catch (error) {
    if (running.signal.aborted) settle(sent);
    else fail(error.message);
  } finally {
    stop.hidden = true;
    delete form.dataset.sent;
  }
});
