// The official openai client for Node, asked over standard input: each line is a JSON job
// {"how", "base_url", "request"}, each line of the answer its result.  A job whose `how`
// ends with "with retries" has the client retry as it does by default.

import OpenAI from "openai";

import { serve, TIMEOUT } from "./jobs.mjs";

const call = ({ id, function: { name, arguments: text } }) => ({ id, name, arguments: text });

function chatResult({ choices: [{ message, finish_reason }] }) {
  return {
    text: message.content ?? "",
    reasoning: message.reasoning_content ?? "",
    calls: (message.tool_calls ?? []).map(call),
    finish_reason,
  };
}

function responsesResult({ output, output_text, status }) {
  return {
    text: output_text ?? "",
    reasoning: output
      .filter(({ type }) => type === "reasoning")
      .flatMap(({ summary }) => summary.map(({ text }) => text))
      .join(""),
    calls: output
      .filter(({ type }) => type === "function_call")
      .map(({ call_id, name, arguments: text }) => ({ id: call_id, name, arguments: text })),
    status,
  };
}

// As hand-written loops do it: deltas joined by `index`.
async function chatCreateStream(client, request) {
  const result = { text: "", reasoning: "", calls: [], finish_reason: null };
  const stream = await client.chat.completions.create({ ...request, stream: true });
  for await (const chunk of stream) {
    for (const { delta, finish_reason } of chunk.choices) {
      result.text += delta.content ?? "";
      result.reasoning += delta.reasoning_content ?? "";
      result.finish_reason = finish_reason ?? result.finish_reason;
      for (const part of delta.tool_calls ?? []) {
        result.calls[part.index] ??= { id: part.id, name: "", arguments: "" };
        result.calls[part.index].name += part.function?.name ?? "";
        result.calls[part.index].arguments += part.function?.arguments ?? "";
      }
    }
  }
  return result;
}

// As the documentation shows it: what came back goes into the next input.
async function responsesLoop(client, request) {
  const input = [{ role: "user", content: request.input }];
  const executed = [];
  for (;;) {
    const response = await client.responses.stream({ ...request, input }).finalResponse();
    const calls = response.output.filter(({ type }) => type === "function_call");
    if (!calls.length) return { text: response.output_text, executed };
    input.push(...response.output);
    for (const { call_id, arguments: text } of calls) {
      executed.push(JSON.parse(text).command);
      input.push({ type: "function_call_output", call_id, output: "from-the-tool" });
    }
  }
}

const jobs = {
  "chat.create": async (client, request) =>
    chatResult(await client.chat.completions.create({ ...request, stream: false })),
  "chat.create stream": chatCreateStream,
  "chat.stream": async (client, request) =>
    chatResult(await client.chat.completions.stream(request).finalChatCompletion()),
  "responses.create": async (client, request) =>
    responsesResult(await client.responses.create({ ...request, stream: false })),
  "responses.stream": async (client, request) => {
    const events = [];
    const stream = client.responses.stream(request).on("event", ({ type }) => events.push(type));
    return { ...responsesResult(await stream.finalResponse()), events };
  },
  "responses.loop": responsesLoop,
};

await serve(async (how, baseURL, request) => {
  const retries = how.endsWith(" with retries") ? {} : { maxRetries: 0 };
  const client = new OpenAI({ baseURL, apiKey: "sk-test", timeout: TIMEOUT, ...retries });
  return await jobs[how.replace(" with retries", "")](client, request);
});
