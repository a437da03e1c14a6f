// The tool runner of the official anthropic client for Node, asked as openai_node.mjs is.

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { z } from "zod";

import { serve, TIMEOUT } from "./jobs.mjs";

await serve(async (how, base_url, request) => {
  const baseURL = base_url.replace(/\/v1$/, "");
  const client = new Anthropic({ baseURL, apiKey: "sk-test", maxRetries: 0, timeout: TIMEOUT });
  const executed = [];
  const bash = betaZodTool({
    name: "bash",
    description: "Run a shell command.",
    inputSchema: z.object({ command: z.string() }),
    run: ({ command }) => {
      executed.push(command);
      return "from-the-tool";
    },
  });
  const stream = how.endsWith(".stream");
  const runner = client.beta.messages.toolRunner({
    model: "kimi-k2.5",
    max_tokens: 1000,
    messages: [{ role: "user", content: request.prompt }],
    tools: [bash],
    stream,
  });
  let message;
  for await (const turn of runner) message = stream ? await turn.finalMessage() : turn;
  const texts = message.content.filter((block) => block.type === "text").map((block) => block.text);
  return { text: texts.join(""), executed };
});
