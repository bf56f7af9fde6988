// Calls the plugin through the interface of OpenCode 2, which is not in the registry. OpenCode 2 provides an event stream, and
// messages in pages or from the context. `node opencode2.mjs PLUGIN`.
import { pathToFileURL } from "node:url";

const { setup } = (await import(pathToFileURL(process.argv[2]))).default;
const time = { created: 1760000000000 };
const messages = (session) => [
  { id: `msg_${session}1`, type: "user", text: "Which port?", time },
  { id: `msg_${session}2`, type: "assistant", content: [{ type: "text", text: "7410." }], time },
];
const host = (title, { session, ...read }) => ({
  event: { async *subscribe() {
    yield { type: "session.execution.started", data: { sessionID: title } };
    yield { type: "session.execution.succeeded", data: { sessionID: title } };
  } },
  session: { get: async ({ sessionID }) => ({ id: sessionID, title, location: { directory: "/w" } }), ...session },
  ...read,
});
const list = async ({ cursor, order }) => {
  if (!cursor === !order) throw new Error("the order goes with the first page");
  const [first, second] = messages("a");
  return cursor ? { data: [second], cursor: {} } : { data: [first], cursor: { next: "more" } };
};
await setup(host("Two, listed", { message: { list } }));
await setup(host("Two, context", { session: { context: async () => messages("b") } }));
