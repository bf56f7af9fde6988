// Connects an MCP client that supports only HTTP, such as the conformance suite, to a server on standard input and output.
// `node bridge.mjs COMMAND ARGUMENT…` prints its address. Both ends are transports of the official SDK, and messages pass
// unchanged. Each session has its own process.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
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

const http = createServer(async (request, response) => {
  const client = sessions.get(request.headers["mcp-session-id"]) ?? (await open());
  await client.handleRequest(request, response);
});
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}`));
