// The openai-agents package for JavaScript with a tool it runs itself, asked over standard input
// as openai_agents.py is.

import { createInterface } from "node:readline";
import {
  Agent,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  run,
  setTracingDisabled,
  tool,
} from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

const models = { chat: OpenAIChatCompletionsModel, responses: OpenAIResponsesModel };

async function answer(how, baseURL, { prompt, name = "kimi-k2.5" }) {
  const [api, mode] = how.split(".");
  const executed = [];
  const bash = tool({
    name: "bash",
    description: "Run a shell command.",
    parameters: z.object({ command: z.string() }),
    execute: async ({ command }) => {
      executed.push(command);
      return "from-the-tool";
    },
  });
  const client = new OpenAI({ baseURL, apiKey: "sk-test", maxRetries: 0, timeout: 20000 });
  const agent = new Agent({ name: "tester", model: new models[api](client, name), tools: [bash] });
  const result = await run(agent, prompt, { stream: mode === "stream" });
  if (mode === "stream") {
    for await (const _ of result);
    await result.completed;
  }
  return { text: result.finalOutput, executed };
}

setTracingDisabled(true);
for await (const line of createInterface({ input: process.stdin })) {
  const { how, base_url, request } = JSON.parse(line);
  let result;
  try {
    result = await answer(how, base_url, request);
  } catch (error) {
    result = { error: `${error.name}: ${error.message}` };
    console.error(error);
  }
  console.log(JSON.stringify(result));
}
