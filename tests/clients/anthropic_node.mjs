// The official anthropic client for Node, asked as openai_node.mjs is: each job is a message, whole
// or put together from its stream by the client's own helper.

import Anthropic from "@anthropic-ai/sdk";

import { serve, TIMEOUT } from "./jobs.mjs";

await serve(async (how, baseURL, request) => {
  const client = new Anthropic({ baseURL, apiKey: "sk-test", maxRetries: 0, timeout: TIMEOUT });
  const { content, stop_reason } =
    how === "create"
      ? await client.messages.create(request)
      : await client.messages.stream(request).finalMessage();
  return { content, stop_reason };
});
