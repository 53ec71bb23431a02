// OpenRouter's SDK with tools, at the base URL of a gateway: node openrouter.mjs MODEL TASK
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { OpenRouter } from "@openrouter/sdk";

const text = { type: "string" };
const tools = {
  read_file: [{ path: text }, ({ path }) => readFileSync(path, "utf8")],
  edit_file: [
    { path: text, from: text, to: text },
    ({ path, from, to }) => {
      writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
      return "edited";
    },
  ],
  run_command: [{ command: text }, ({ command }) => execFileSync("sh", ["-c", command], { encoding: "utf8" }) || "done"],
  count_words: [{ text }, ({ text }) => `${text.split(" ").length} words`],
};
const [model, content] = process.argv.slice(2);
const client = new OpenRouter({ serverURL: process.env.GATEWAY_URL, apiKey: process.env.GATEWAY_API_KEY });
const messages = [{ role: "user", content }];
const asked = {
  model,
  messages,
  tools: Object.entries(tools).map(([name, [properties]]) => ({
    type: "function",
    function: { name, parameters: { type: "object", properties, required: Object.keys(properties) } },
  })),
  reasoning: { effort: "low" },
};

let reply;
for (;;) {
  reply = await client.chat.send({ chatRequest: asked });
  const { message } = reply.choices[0];
  if (!message.toolCalls?.length) break;
  messages.push(message);
  for (const { id, function: called } of message.toolCalls) {
    messages.push({ role: "tool", toolCallId: id, content: tools[called.name][1](JSON.parse(called.arguments)) });
  }
}

for await (const chunk of await client.chat.send({ chatRequest: { ...asked, stream: true } })) {
  process.stdout.write(chunk.choices[0]?.delta.content ?? "");
}
const listed = await client.models.list();
const { data: key } = await client.apiKeys.getCurrentKeyMetadata();
const { data: generation } = await client.generations.getGeneration({ id: reply.id });
if (!listed.result.data.some(({ id }) => id === model)) throw new Error("the model is not listed");
if (!(key.usage >= generation.totalCost && generation.totalCost === reply.usage.cost)) throw new Error("the costs differ");
