// Vercel's AI SDK with tools of its own, over several steps, with a provider: node ai_sdk.mjs MODEL TASK PACKAGE
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const text = { type: "string" };
const made = (description, properties, execute) =>
  tool({
    description,
    inputSchema: jsonSchema({ type: "object", properties, required: Object.keys(properties), additionalProperties: false }),
    execute,
  });
const [name, prompt, source] = process.argv.slice(2);
const { createOpenAI, createOpenRouter } = await import(source === "ai" ? "@ai-sdk/openai" : source);
const provider = (createOpenAI ?? createOpenRouter)({ baseURL: process.env.GATEWAY_URL, apiKey: process.env.GATEWAY_API_KEY });
const model = createOpenAI ? provider(name) : provider(name, { reasoning: { effort: "low" } });
const reply = await generateText({
  model,
  prompt,
  stopWhen: stepCountIs(10),
  tools: {
    read_file: made("Read a file", { path: text }, ({ path }) => readFileSync(path, "utf8")),
    edit_file: made("Replace text in a file", { path: text, from: text, to: text }, ({ path, from, to }) => {
      writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
      return "edited";
    }),
    run_command: made("Run a command", { command: text }, ({ command }) => execFileSync("sh", ["-c", command], { encoding: "utf8" }) || "done"),
    count_words: made("Count words", { text }, ({ text }) => `${text.split(" ").length} words`),
  },
});
console.log(reply.text);
if (createOpenRouter) {
  const before = reply.steps.slice(0, -1).flatMap((step) => step.response.messages);
  const said = [{ role: "user", content: prompt }, ...before]; // the last step again
  const streamed = streamText({ model, messages: said });
  await streamed.consumeStream();
  assert((await streamed.usage).outputTokens > 0, "its usage is told unasked");
}
