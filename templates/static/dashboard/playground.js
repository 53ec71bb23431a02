// The playground: a conversation with a model, or with two side by side. Replies stream, with their cost. Without scripts the page
// shows the whole reply of one.
"use strict";

const form = document.getElementById("playground");
const stop = document.getElementById("stop");
const at = (id) => document.getElementById(id);
const LETTERS_PER_TOKEN = 4n; // an estimate, until the reply says how many tokens it has
const SETTLE_MILLISECONDS = 1000; // between two looks; longer and longer, as some replies take minutes
const SETTLE_MILLISECONDS_MAX = 15000;

for (const element of document.querySelectorAll("[data-script]")) element.hidden = false;

const costs = new Map(); // the nanodollars that the page shows, by the id of their element

// Show a cost, and all costs of the page with as many decimals as any of them needs.
function showCost(id, nanos) {
  costs.set(id, nanos);
  const decimals = Math.max(...[...costs.values()].map((cost) => dollars(cost).split(".")[1].length));
  for (const [each, cost] of costs) at(each).textContent = dollars(cost, decimals);
}

let wholeCost = 0n;
let sentPrompt = "";

// A model and its conversation. The messages so far are kept here, and sent each time, as the gateway stores none.
class Side {
  constructor(field, suffix) {
    this.field = form.elements[field];
    this.suffix = suffix;
    this.turns = [];
    this.isKept = false; // whether the turn that is shown last is among the turns
    this.latest = null; // the request that the page shows
  }

  get model() {
    return this.field.value.trim();
  }

  // What the model costs: the data of its element in the list.
  get price() {
    return [...at("models").options].find((option) => option.value === this.model)?.dataset;
  }

  at(id) {
    return at(id + this.suffix);
  }

  show(id, text) {
    this.at(id).textContent = text;
  }

  // --- The conversation

  keepTurn(prompt, text) {
    this.turns.push({ role: "user", content: prompt }, { role: "assistant", content: text });
    this.isKept = true;
  }

  moveTurn(who, text, spent = "") {
    const moved = document.createElement("p"), speaker = document.createElement("span");
    moved.className = `turn ${who === "You" ? "user" : "assistant"}`;
    speaker.className = "hidden";
    speaker.textContent = `${who}: `;
    moved.append(speaker, text);
    this.at("asked").before(moved);
    if (!spent) return;
    const cost = document.createElement("p");
    cost.className = "spent small";
    cost.textContent = spent;
    moved.after(cost);
  }

  // Begin with the conversation of another side.
  join(other) {
    if (this.turns.length || !other.turns.length) return;
    this.turns = [...other.turns];
    for (const { role, content } of this.turns) this.moveTurn(role === "user" ? "You" : "Model", content);
  }

  // Show what was asked, after the turn before. One without a reply is not part of the conversation: the next takes its place.
  showTurn(prompt) {
    const asked = this.at("asked").querySelector("[data-text]");
    if (this.isKept) {
      this.moveTurn("You", asked.textContent);
      this.moveTurn("Model", this.at("reply").textContent, this.at("spent").textContent);
    }
    this.showSpent("");
    this.isKept = false;
    asked.textContent = prompt;
    this.at("asked").hidden = this.at("reply").hidden = false;
  }

  // --- The reply

  showSpent(words) {
    this.show("spent", words);
    this.at("spent").hidden = !words;
  }

  estimate(letters) {
    const { price } = this;
    if (!price) return 0n;
    const sent = [...this.turns, { content: sentPrompt }, { content: form.elements.system.value }];
    const prompt = sent.reduce((sum, { content }) => sum + content.length, 0);
    const nanosPerMillion = BigInt(prompt) * BigInt(price.inputNanos) + BigInt(letters) * BigInt(price.outputNanos);
    const nanos = nanosPerMillion / LETTERS_PER_TOKEN / 1_000_000n;
    const step = 10n ** BigInt(Math.max(String(nanos).length - 4, 0)); // four digits: it is an estimate
    return (nanos / step) * step;
  }

  fail(words) {
    this.show("error", words);
    this.at("error").hidden = false;
    this.show("state", "");
  }

  begin() {
    this.at("error").hidden = this.at("request").hidden = true;
    for (const id of ["reply", "cost-kind"]) this.show(id, "");
    costs.delete(`cost${this.suffix}`);
    for (const id of ["cost", "tokens", "first-token"]) this.show(id, "–");
    this.show("state", "Sent.");
    this.at("turns").scrollTop = this.at("turns").scrollHeight;
  }

  showCharge(nanos, promptTokens, completionTokens) {
    this.show("tokens", `${promptTokens} in, ${completionTokens} out`);
    showCost(`cost${this.suffix}`, nanos);
    this.show("cost-kind", "charged");
    showCost("whole-cost", (wholeCost += nanos));
    this.showSpent(`${dollars(nanos)}, ${promptTokens} tokens in, ${completionTokens} out`);
  }

  linkRequest(id) {
    const link = this.at("request").querySelector("a");
    link.href = `${link.dataset.requests}${id}/`;
    this.at("request").hidden = false;
  }

  showEnd(usage, isCut) {
    if (usage && usage.cost !== null) this.showCharge(nanosOf(usage.cost), usage.prompt_tokens, usage.completion_tokens);
    else if (usage) this.show("tokens", `${usage.prompt_tokens} in, ${usage.completion_tokens} out`);
    this.show("state", isCut ? "The reply reached your maximum output tokens." : "Done.");
  }

  // A stopped reply: some providers finish it all the same, and then charge for all of it.
  async settle(sent) {
    if (!sent.id) return this.show("state", "Stopped before the first token. See Requests for what it cost, if anything.");
    this.show("cost-kind", "being settled");
    this.show("cost", `at most ${dollars(sent.maxCost)}`);
    this.show("state", "Stopped. The charge is being settled.");
    for (let wait = SETTLE_MILLISECONDS; sent === this.latest; wait = Math.min(wait * 1.5, SETTLE_MILLISECONDS_MAX)) {
      const charge = await readCharge(at("request").dataset.charges.replace("ID", sent.id)).catch(() => ({ isSettled: false }));
      if (sent !== this.latest) return; // another request is shown by now
      if (charge.isSettled) {
        this.showCharge(nanosOf(charge.costInDollars), charge.promptTokens, charge.completionTokens);
        return this.show("state", `Stopped. ${Number(charge.costInDollars) ? "What was generated is charged." : "Nothing is charged."}`);
      }
      this.show("state", "Stopped. The provider finishes the reply, and all of it is charged. The charge is being settled.");
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  async receive(response, began, sent) {
    let letters = 0, usage = null, isCut = false;
    const turns = this.at("turns"), reply = this.at("reply");
    for await (const event of events(response.body)) {
      if (event.error) throw new Error(event.error.message);
      if (!sent.id) this.linkRequest((sent.id = event.id));
      usage = event.usage || usage;
      for (const choice of event.choices) {
        const text = choice.delta.content || "";
        const reasoning = choice.delta.reasoning_content || choice.delta.reasoning || "";
        if (!letters && (text || reasoning)) {
          this.show("first-token", `${((performance.now() - began) / 1000).toFixed(2)} s`);
          this.show("state", "Receiving the reply.");
        }
        letters += text.length + reasoning.length;
        const isAtEnd = turns.scrollHeight - turns.scrollTop - turns.clientHeight < 40;
        reply.append(text); // as text: markup in it stays text
        if (isAtEnd) turns.scrollTop = turns.scrollHeight;
        isCut = isCut || choice.finish_reason === "length";
      }
      this.show("cost", `about ${dollars(this.estimate(letters))}`);
      this.show("cost-kind", "so far");
    }
    this.showEnd(usage, isCut);
    if (!reply.textContent) return;
    this.keepTurn(sentPrompt, reply.textContent);
    keepForm();
  }

  // The form as it is sent for this side.
  get data() {
    const data = new FormData(form);
    data.set("model", this.model);
    data.set("earlier", JSON.stringify(this.turns));
    data.delete("other_model");
    return data;
  }

  async send(signal, sent, data) {
    const began = performance.now();
    const headers = { Accept: "text/event-stream" };
    const response = await fetch(form.action, { method: "POST", body: data, headers, signal, redirect: "manual" });
    if (response.type === "opaqueredirect") return this.fail("You are signed out. Reload the page to sign in again.");
    if (!response.ok) return this.fail(await refusal(response));
    sent.maxCost = nanosOf(response.headers.get("x-gateway-max-cost"));
    this.show("state", `Waiting for the first token. At most ${dollars(sent.maxCost)} is charged.`);
    await this.receive(response, began, sent);
  }

  async run(signal) {
    const sent = (this.latest = { id: "", maxCost: 0n });
    this.showTurn(sentPrompt);
    this.begin();
    try {
      await this.send(signal, sent, this.data);
    } catch (error) {
      if (signal.aborted) this.settle(sent);
      else this.fail(error.message);
    }
  }
}

const first = new Side("model", ""), second = new Side("other_model", "-2");
first.turns = JSON.parse(form.elements.earlier.value || "[]");
first.isKept = first.turns.length > 0;

// --- The form

function keepForm() {
  form.elements.earlier.value = JSON.stringify(first.turns);
  if (form.elements.prompt.value === sentPrompt) form.elements.prompt.value = "";
  showCode();
}

function requestOfForm() {
  const given = new FormData(form);
  const request = { model: given.get("model"), messages: [] };
  if (given.get("system")) request.messages.push({ role: "system", content: given.get("system") });
  request.messages.push(...first.turns);
  request.messages.push({ role: "user", content: given.get("prompt") || "Hello" });
  for (const name of ["max_tokens", "temperature"]) if (given.get(name)) request[name] = Number(given.get(name));
  return request;
}

function showCode() {
  const code = JSON.stringify(requestOfForm(), null, 2);
  for (const element of document.querySelectorAll("[data-request]")) element.textContent = code;
}

function showSides() {
  const isTwo = Boolean(second.model);
  at("sides").classList.toggle("two", isTwo);
  at("side-2").hidden = at("last-2").hidden = at("side-name").hidden = !isTwo;
  for (const side of [first, second]) {
    side.show("side-name", side.model);
    side.show("price", side.price?.price ?? (side.model ? "No model has this ID." : ""));
  }
}

form.addEventListener("input", showCode);
form.addEventListener("input", showSides);
showCode();
showSides();

// A browser lists only the models that match the field: so that all are listed, typing replaces what it has.
for (const side of [first, second]) side.field.addEventListener("focus", () => side.field.select());

for (const example of document.querySelectorAll("[data-example]")) {
  example.addEventListener("click", (event) => {
    event.preventDefault();
    form.elements.prompt.value = example.textContent;
    form.elements.prompt.focus();
    showCode();
  });
}

// Beside the conversation on a wide screen; on a phone below it, and folded.
at("settings").open = matchMedia("(min-width: 56rem)").matches || at("settings").querySelector("[aria-invalid]") !== null;

form.elements.prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.requestSubmit();
});

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!stop.hidden) return;
  const running = new AbortController();
  stop.onclick = () => running.abort();
  sentPrompt = form.elements.prompt.value;
  at("hint").hidden = true;
  at("last-1").hidden = false;
  at("anew").hidden = stop.hidden = false;
  if (second.model) second.join(first);
  try {
    await Promise.all([first, second].filter((side) => side.model).map((side) => side.run(running.signal)));
  } finally {
    stop.hidden = true;
    delete form.dataset.sent;
  }
});
