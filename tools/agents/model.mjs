// A model for tests: answers every request of the OpenAI API with the same sentence, and appends each request to a file.
// `node model.mjs FILE SENTENCE` prints its address.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

const [file, sentence] = process.argv.slice(2);

const http = createServer(async (request, response) => {
  const asked = await json(request);
  appendFileSync(file, `${JSON.stringify(asked)}\n`);
  const head = { id: "1", created: 0, model: asked.model };
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  if (!asked.stream) {
    const message = { role: "assistant", content: sentence };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...head, object: "chat.completion", choices, usage }));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  for (const [delta, finish_reason] of [[{ role: "assistant", content: sentence }, null], [{}, "stop"]]) {
    const chunk = { ...head, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] };
    if (finish_reason) chunk.usage = usage;
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  }
  response.end("data: [DONE]\n\n");
});
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}`));
