// Lets a client that speaks MCP over HTTP alone, as the conformance suite does, speak with a server on standard input and
// output: `node bridge.mjs COMMAND ARGUMENT…` prints its address. Both ends are transports of the official SDK, and messages
// pass between them as they are. Each session has a process of its own.
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
    // A message of the server's own goes to whoever waits for an answer: on standard output nothing says whose it is.
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
