// Vercel's AI SDK with a tool it runs itself, asked over standard input as openai_node.mjs is.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { serve } from "./jobs.mjs";

function model(api, baseURL) {
  const settings = { baseURL, apiKey: "sk-test", name: "replay" };
  if (api === "responses") return createOpenAI(settings).responses("kimi-k2.5");
  if (api === "messages") return createAnthropic(settings)("kimi-k2.5");
  return createOpenAICompatible(settings)("kimi-k2.5");
}

// Several prompts, with all defaults: the host stores, and is sent references to what it said.
async function converse(run, settings, prompts) {
  const messages = [];
  const texts = [];
  for (const content of prompts) {
    messages.push({ role: "user", content });
    const turn = { ...settings, messages };
    let result;
    if (run === "stream") {
      result = streamText({ ...turn, onError: ({ error }) => { throw error; } });
      await result.consumeStream();
    } else {
      result = await generateText(turn);
    }
    texts.push(await result.text);
    messages.push(...(await result.responseMessages));
  }
  return { texts };
}

await serve(async (how, base_url, request) => {
  const [api, run] = how.split(".");
  const executed = [];
  const settings = {
    model: model(api, base_url),
    prompt: request.prompt,
    maxRetries: 0,
    stopWhen: stepCountIs(5),
    providerOptions: { openai: { store: false } },
    tools: {
      bash: tool({
        description: "Run a shell command.",
        inputSchema: z.object({ command: z.string() }),
        execute: async ({ command }) => {
          executed.push(command);
          return "from-the-tool";
        },
      }),
    },
  };
  if (request.prompts) {
    const { prompt, providerOptions, ...defaults } = settings;
    return { ...(await converse(run, defaults, request.prompts)), executed };
  }
  if (run === "stream") {
    const errors = [];
    const stream = streamText({ ...settings, onError: ({ error }) => errors.push(error) });
    for await (const _ of stream.fullStream);
    if (errors.length) throw errors[0];
    return { text: await stream.text, finish_reason: await stream.finishReason, executed };
  }
  const { text, finishReason } = await generateText(settings);
  return { text, finish_reason: finishReason, executed };
});
