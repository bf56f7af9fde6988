"""Simulates a day-long conversation through the Python MCP SDK, over one transport and in one mode of the protocol.

    day.py stdio|http legacy|auto PROGRAM HOME [URL]

Stores the turns of a day in two processes, then searches, drills down and resumes the conversation as an agent without
other memory would. Exits with 0 if every check passes.
"""

import asyncio
import os
import sys

from mcp import Client, StdioServerParameters

TURNS = 96
PLACES = ["north gate", "sluice seven", "the old mill", "harbour wall", "pump house", "east sill"]


def said(turn: int) -> tuple[str, str]:
    place = PLACES[turn % len(PLACES)]
    user = f"It is quarter {turn} of the day. What is the level at {place}? " + "The wind has turned again. " * 12
    assistant = f"At {place} it stands at {1000 + turn * 7} mm. " + "I keep watching the gauge and write it down. " * 12
    if turn == 41:
        assistant += "We decided to open the relief culvert at 14:20, and Ines signs for it."
    return user, assistant


class Day:
    def __init__(self, client: Client):
        self.client = client

    async def call(self, name: str, **arguments):
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, f"{name}: {result.content}"
        return result.structured_content

    async def text(self, name: str, **arguments) -> str:
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error and result.structured_content is None, f"{name}: {result}"
        return result.content[0].text

    async def refused(self, name: str, **arguments) -> str:
        result = await self.client.call_tool(name, arguments)
        assert result.is_error, f"{name} was not refused"
        return result.content[0].text

    async def live(self, begin: int, end: int) -> None:
        for turn in range(begin, end):
            user, assistant = said(turn)
            at = f"2026-03-02T{turn // 4:02}:{turn % 4 * 15:02}:00Z"
            told = await self.call("remember", key="watch", title="A day at the water", user=user, assistant=assistant,
                                   external_id=f"q{turn}", at=at,
                                   tool_calls=[{"name": "gauge", "args": {"turn": turn}, "result": 1000 + turn * 7}])
            assert told["messages"] == [2 * turn, 2 * turn + 1], told
            assert told["created"] == (turn == 0), told

    async def remember_twice(self) -> None:
        user, assistant = said(5)
        told = await self.call("remember", key="watch", user=user, assistant=assistant, external_id="q5")
        assert told["messages"] == [] and told["known"] >= 2, told

    async def recall(self) -> None:
        found = await self.text("search", query="who signed for opening the relief culvert?", limit=5)
        assert "`a-day-at-the-water#83`" in found, found
        whole = await self.text("expand", id="a-day-at-the-water#83")
        assert "Ines signs for it" in whole and "gauge" in whole, whole
        node = whole.split("Above:\n- `")[1].split("`")[0]
        node = await self.text("expand", id=node, max_tokens=3000)
        assert "level 1 of a-day-at-the-water" in node and "Sources:" in node, node

    async def take_up(self) -> None:
        for budget in (600, 4000):
            context = await self.text("context", conversation="a-day-at-the-water", max_tokens=budget,
                                      query="what was decided about the culvert?")
            assert "culvert" in context, context
        sessions = await self.text("sessions")
        assert f"`a-day-at-the-water` {TURNS} turns" in sessions, sessions

    async def look_around(self) -> None:
        tools = await self.client.list_tools()
        assert {tool.name for tool in tools.tools} >= {"remember", "search", "context", "expand"}
        resources = await self.client.list_resources()
        for resource in resources.resources:
            read = await self.client.read_resource(str(resource.uri))
            assert read.contents[0].text, resource.uri
        prompt = await self.client.get_prompt("recall", {"question": "who signed for the culvert?"})
        assert "Ines" in prompt.messages[0].content.text
        assert "sessions" in await self.refused("context", conversation="no-such-thing")

    async def update(self) -> None:
        heard = []

        async def progress(done, total, message):
            heard.append((done, total, message))

        result = await self.client.call_tool("summaries_update", {"full": True, "wait": True}, progress_callback=progress)
        updated = result.structured_content
        assert updated["jobs_left"] == 0 and updated["job"], updated
        assert heard, "no progress was reported"


async def main() -> None:
    transport, mode, program, home, *url = sys.argv[1:]
    server = url[0] if transport == "http" else StdioServerParameters(
        command=program, args=["mcp"], env={"TREERING_HOME": home, "PATH": os.environ["PATH"]})
    # The memory must survive the end of the first process.
    async with Client(server, mode=mode) as client:
        await Day(client).live(0, TURNS // 2)
    async with Client(server, mode=mode) as client:
        day = Day(client)
        await day.live(TURNS // 2, TURNS)
        await day.remember_twice()
        # A context waits for the summaries that a recall drills into.
        await day.take_up()
        await day.recall()
        await day.look_around()
        await day.update()
        await day.recall()
    print(f"a day of {TURNS} turns over {transport}, {mode}: ok")


asyncio.run(main())
