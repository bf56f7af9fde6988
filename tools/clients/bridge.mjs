// Connects an MCP client that supports only HTTP, such as the conformance suite, to a server on standard input and output.
// `node bridge.mjs COMMAND ARGUMENT…` prints its address. The server's end is a transport of the official SDK.
//
// Until protocol 2025-11-25 a client has a session: each session has its own process, and messages pass unchanged through the
// SDK's transport for HTTP. From 2026-07-28 on each request stands alone: all of them share one process, under new ids.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const [command, ...args] = process.argv.slice(2);
const sessions = new Map();

const open = async () => {
  const server = new StdioClientTransport({ command, args });
  const client = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, client),
  });
  const asked = new Set();
  client.onmessage = (message) => {
    if (message.method && message.id !== undefined) asked.add(message.id);
    server.send(message);
  };
  server.onmessage = (message) => {
    if (!message.method) asked.delete(message.id);
    // Requests and notifications of the server do not name a request on stdio, so relate them to the latest pending one.
    client.send(message, message.method ? { relatedRequestId: [...asked].at(-1) } : {});
  };
  client.onclose = () => {
    sessions.delete(client.sessionId);
    server.close();
  };
  await server.start();
  await client.start();
  return client;
};

// The process for requests that stand alone, and the requests that wait for it, by their new id.
const pending = new Map();
let shared;
const started = () => {
  shared ??= (async () => {
    const server = new StdioClientTransport({ command, args });
    server.onmessage = deliver;
    await server.start();
    return server;
  })();
  return shared;
};

const event = (response, message) => {
  if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(`data: ${JSON.stringify(message)}\n\n`);
};

const deliver = (message) => {
  if (message.method) {
    const token = message.params?.progressToken;
    const requests = [...pending.values()];
    const asked = requests.find((it) => token !== undefined && it.token === token) ?? requests.at(-1);
    if (asked) event(asked.response, message);
    return;
  }
  const { id, response } = pending.get(message.id) ?? {};
  if (!response) return;
  pending.delete(message.id);
  if (response.headersSent) {
    event(response, { ...message, id });
    response.end();
    return;
  }
  const status = { undefined: 200, "-32601": 404 }[message.error?.code] ?? 400;
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ ...message, id }));
};

let next = 0;
const forward = async (message, response) => {
  const server = await started();
  if (message.id === undefined) {
    server.send(message);
    response.writeHead(202).end();
    return;
  }
  const id = (next += 1);
  pending.set(id, { id: message.id, token: message.params?._meta?.progressToken, response });
  response.on("close", () => {
    if (!pending.delete(id)) return;
    server.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
  });
  server.send({ ...message, id });
};

const http = createServer(async (request, response) => {
  const message = request.method === "POST" ? await json(request).catch(() => undefined) : undefined;
  const version = message?.params?._meta?.["io.modelcontextprotocol/protocolVersion"] ?? request.headers["mcp-protocol-version"];
  if (message && version >= "2026") return forward(message, response);
  const client = sessions.get(request.headers["mcp-session-id"]) ?? (await open());
  await client.handleRequest(request, response, message);
});
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}`));
