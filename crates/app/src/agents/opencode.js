// Treering: captures what was said. Written by `treering install opencode`; `treering uninstall opencode` takes it out.
import { spawn } from "node:child_process";

const command = ["treering", "hook", "opencode"];

// Hands a session over. Nothing that goes wrong here reaches the agent.
const capture = async (client, directory, sessionID) => {
  try {
    const session = await client.session.get({ path: { id: sessionID } });
    const messages = await client.session.messages({ path: { id: sessionID } });
    const input = { directory, session: session.data, messages: messages.data };
    const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "ignore", "ignore"] });
    child.on("error", () => {});
    child.stdin.on("error", () => {});
    child.stdin.end(JSON.stringify(input));
  } catch {}
};

export const Treering = async ({ client, directory }) => ({
  event: async ({ event }) => {
    const ended = ["session.idle", "session.compacted"].includes(event.type);
    const idle = event.type === "session.status" && event.properties?.status?.type === "idle";
    if (ended || idle) await capture(client, directory, event.properties.sessionID);
  },
});
