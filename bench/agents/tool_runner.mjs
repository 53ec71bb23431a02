// The tool runner of Anthropic's SDK with tools of its own: node tool_runner.mjs MODEL TASK
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

const text = { type: "string" };
const tool = (name, properties, run) =>
  betaTool({
    name,
    description: name,
    inputSchema: { type: "object", properties, required: Object.keys(properties) },
    run,
  });
const [model, content] = process.argv.slice(2);
const runner = new Anthropic().beta.messages.toolRunner({
  model,
  max_tokens: 16000,
  messages: [{ role: "user", content }],
  tools: [
    tool("read_file", { path: text }, ({ path }) => readFileSync(path, "utf8")),
    tool("edit_file", { path: text, from: text, to: text }, ({ path, from, to }) => {
      writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
      return "edited";
    }),
    tool("run_command", { command: text }, ({ command }) => execFileSync("sh", ["-c", command], { encoding: "utf8" }) || "done"),
    tool("count_words", { text }, ({ text }) => `${text.split(" ").length} words`),
  ],
});
const message = await runner;
console.log(message.content.map((block) => block.text ?? "").join(""));
