// A model for tests: answers every request with the same sentence, in the APIs that the agents speak, and appends each request to a file.
// `node model.mjs FILE SENTENCE` prints its address.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const [file, sentence] = process.argv.slice(2);

// Each event is a type, or none, and its data.
const chat = (model) => {
  const head = { id: "1", object: "chat.completion.chunk", created: 0, model };
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  const choice = (delta, finish_reason) => [{ index: 0, delta, finish_reason }];
  return [
    [null, { ...head, choices: choice({ role: "assistant", content: sentence }, null) }],
    [null, { ...head, choices: choice({}, "stop"), usage }],
  ];
};

const responses = () => {
  const content = [{ type: "output_text", text: sentence, annotations: [] }];
  const item = { id: "1", type: "message", role: "assistant", content };
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return [
    ["response.created", { response: { id: "1" } }],
    ["response.output_item.done", { output_index: 0, item }],
    ["response.completed", { response: { id: "1", output: [item], usage } }],
  ];
};

const messages = (model) => {
  const usage = { input_tokens: 1, output_tokens: 1 };
  const message = { id: "1", type: "message", role: "assistant", model, content: [], stop_reason: null, usage };
  return [
    ["message_start", { message }],
    ["content_block_start", { index: 0, content_block: { type: "text", text: "" } }],
    ["content_block_delta", { index: 0, delta: { type: "text_delta", text: sentence } }],
    ["content_block_stop", { index: 0 }],
    ["message_delta", { delta: { stop_reason: "end_turn" }, usage }],
    ["message_stop", {}],
  ];
};

const apis = { "/v1/chat/completions": chat, "/v1/responses": responses, "/v1/messages": messages };

const http = createServer(async (request, response) => {
  const asked = await json(request).catch(() => ({}));
  appendFileSync(file, `${JSON.stringify(asked)}\n`);
  const events = apis[request.url.split("?")[0]]?.(asked.model);
  if (!events || !asked.stream) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const [type, data] of events) {
    if (type) response.write(`event: ${type}\n`);
    response.write(`data: ${JSON.stringify(type ? { type, ...data } : data)}\n\n`);
  }
  response.end("data: [DONE]\n\n");
});
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}`));
