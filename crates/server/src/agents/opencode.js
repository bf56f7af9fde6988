// Treering: captures what was said. Written by `treering install opencode`; `treering uninstall opencode` takes it out.
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

// Entry point for OpenCode 1.
const server = async ({ client, directory }) => ({
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
