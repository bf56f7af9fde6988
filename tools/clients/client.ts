// Uses the types that openapi-typescript generated from the OpenAPI document. `node client.js URL`.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Entry = components["schemas"]["EntryRequest"];

const check = (holds: boolean, found: unknown) => {
  if (!holds) throw new Error(JSON.stringify(found));
};

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });
const entries: Entry[] = [
  { type: "turn", user: "Which port does staging use?", assistant: "7410, since March." },
  { role: "user", text: "And the port of production?", author: "Ana" },
  { role: "assistant", content: "7411." },
];
const stored = await client.POST("/v1/append", { body: { key: "typescript", title: "Ports", entries } });
check(stored.data?.slug === "ports" && stored.data.messages.length === 4, stored);
const listed = await client.GET("/v1/conversations", { params: { query: { limit: 5 } } });
check(listed.data?.conversations.length === 1 && listed.data.more === false, listed);
const found = await client.POST("/v1/search", { body: { query: "which port does staging use" } });
check(found.data?.hits[0]?.snippet.includes("7410") === true, found);
const built = await client.POST("/v1/context", { body: { conversation: "ports", query: "production", budget: 1000 } });
check(built.data?.text?.includes("7411") === true, built);
const refused = await client.POST("/v1/search", { body: { query: " " } });
check(refused.error?.error.includes("empty") === true, refused);
console.log("the TypeScript client: ok");
