// The openai-agents package for JavaScript with a tool it runs itself, asked over standard input
// as openai_agents.py is.

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

import { serve, TIMEOUT } from "./jobs.mjs";

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
  const client = new OpenAI({ baseURL, apiKey: "sk-test", maxRetries: 0, timeout: TIMEOUT });
  const agent = new Agent({ name: "tester", model: new models[api](client, name), tools: [bash] });
  const result = await run(agent, prompt, { stream: mode === "stream" });
  if (mode === "stream") {
    for await (const _ of result);
    await result.completed;
  }
  return { text: result.finalOutput, executed };
}

setTracingDisabled(true);
await serve(answer);
