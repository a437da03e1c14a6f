// What the client scripts for Node share: a job a line comes in, an answer a line goes out.

import { createInterface } from "node:readline";

export const TIMEOUT = 100_000; // milliseconds: less than those who ask wait for an answer

export async function serve(answer) {
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
}
