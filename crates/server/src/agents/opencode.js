// Treering: captures what was said, and recalls it in new sessions. Written by `treering install opencode`; `treering
// uninstall opencode` removes it.
import { spawn } from "node:child_process";

const command = ["treering", "hook", "opencode"];

// Sends the session to the hook. Errors never reach the agent.
const capture = async (read) => {
  try {
    const input = JSON.stringify(await read());
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "ignore", "ignore"] });
    child.on("error", () => {});
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  } catch {}
};

// Asks the hook what the memory has. No answer within a second means nothing.
const ask = (input) =>
  new Promise((resolve) => {
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] });
    const answer = [];
    const done = () => {
      try {
        resolve(JSON.parse(Buffer.concat(answer).toString()).additional_context ?? "");
      } catch {
        resolve("");
      }
    };
    setTimeout(() => resolve(""), 1000).unref();
    child.on("error", () => resolve(""));
    child.on("close", done);
    child.stdout.on("data", (part) => answer.push(part));
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(input));
  });

// The answers by session. A session keeps its answer, so that the prompt cache stays valid.
const recalled = new Map();
const recall = (directory, sessionID, event) => {
  const answer = ask({ hook_event_name: event, session_id: sessionID, cwd: directory });
  recalled.set(sessionID, answer);
  return answer;
};

// Entry point for OpenCode 1.
const server = async ({ client, directory }) => ({
  "experimental.chat.system.transform": async ({ sessionID }, output) => {
    if (!sessionID) return;
    const known = recalled.get(sessionID);
    const text = await (known ?? recall(directory, sessionID, "sessionStart"));
    if (text) output.system.push(text);
  },
  event: async ({ event }) => {
    const status = event.type === "session.status" && event.properties?.status?.type;
    const ended = event.type === "session.idle" || status === "idle";
    if (!ended && event.type !== "session.compacted") return;
    const path = { id: event.properties.sessionID };
    await capture(async () => {
      const session = await client.session.get({ path });
      const messages = await client.session.messages({ path });
      return { directory, ended, session: session.data, messages: messages.data };
    });
    if (!ended) recall(directory, event.properties.sessionID, "sessionCompacted");
  },
});

const bare = (answer) => answer?.data ?? answer;

// All messages if the host can list them, otherwise those of the current context.
const messagesOf = async (ctx, sessionID) => {
  if (!ctx.message?.list) return bare(await ctx.session.context({ sessionID }));
  const messages = [];
  let page = await ctx.message.list({ sessionID, limit: 100, order: "asc" });
  messages.push(...page.data);
  while (page.data.length && page.cursor?.next) {
    page = await ctx.message.list({ sessionID, limit: 100, cursor: page.cursor.next });
    messages.push(...page.data);
  }
  return messages;
};

// Entry point for OpenCode 2. OpenCode 1 may also call it, but without events to follow.
const setup = async (ctx) => {
  if (!ctx?.event?.subscribe || !ctx.session?.get) return;
  const stop = new AbortController();
  const ends = ["succeeded", "failed", "interrupted"].map((how) => `session.execution.${how}`);
  const follow = async () => {
    for await (const event of ctx.event.subscribe({ signal: stop.signal })) {
      if (!ends.includes(event.type)) continue;
      const { sessionID } = event.data;
      await capture(async () => ({
        ended: true,
        session: bare(await ctx.session.get({ sessionID })),
        messages: await messagesOf(ctx, sessionID),
      }));
    }
  };
  follow().catch(() => {});
  return () => stop.abort();
};

export default { id: "treering", server, setup };
