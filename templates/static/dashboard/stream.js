// What pages do with a streamed reply: read its events, and show what it cost.
"use strict";

// Costs are whole nanodollars, and shown exactly, so that they add up.
const nanosOf = (dollars) => BigInt(Number(dollars).toFixed(9).replace(".", ""));

function dollars(nanos, decimals = 2) {
  const digits = String(nanos).padStart(10, "0");
  return `$${digits.slice(0, -9)}.${digits.slice(-9).replace(/0+$/, "").padEnd(decimals, "0")}`;
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

async function refusal(response) {
  const isJson = (response.headers.get("Content-Type") || "").startsWith("application/json");
  return isJson ? (await response.json()).error.message : `The gateway replied ${response.status}. Reload the page and try again.`;
}

// What a request was charged, once it is settled.
async function readCharge(address) {
  const response = await fetch(address, { redirect: "manual" });
  return response.ok ? response.json() : { isSettled: false };
}
