// The official anthropic client for Node, asked as openai_node.mjs is: each job is a message, whole
// or put together from its stream by the client's own helper.

import { createInterface } from "node:readline";
import Anthropic from "@anthropic-ai/sdk";

for await (const line of createInterface({ input: process.stdin })) {
  const { how, base_url, request } = JSON.parse(line);
  const client = new Anthropic({ baseURL: base_url, apiKey: "sk-test", maxRetries: 0, timeout: 20000 });
  let result;
  try {
    const { content, stop_reason } =
      how === "create"
        ? await client.messages.create(request)
        : await client.messages.stream(request).finalMessage();
    result = { content, stop_reason };
  } catch (error) {
    result = { error: `${error.name}: ${error.message}` };
    console.error(error);
  }
  console.log(JSON.stringify(result));
}
