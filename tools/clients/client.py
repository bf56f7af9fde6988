"""Uses the Python client that openapi-python-client generated from the OpenAPI document.

    client.py PACKAGES URL

PACKAGES is the folder that holds the package `generated`.
"""

import sys

packages, url = sys.argv[1:]
sys.path.insert(0, packages)

from generated import Client  # noqa: E402
from generated.api.conversations import append, sessions  # noqa: E402
from generated.api.search import context, search  # noqa: E402
from generated.models import (  # noqa: E402
    AppendRequest,
    ChatEntry,
    ContextParams,
    MessageEntry,
    MessageEntryRole,
    Problem,
    SearchRequest,
    TurnEntry,
    TurnEntryType,
)

client = Client(base_url=url)
entries = [
    TurnEntry(type_=TurnEntryType.TURN, user="Which port does staging use?", assistant="7410, since March."),
    MessageEntry(role=MessageEntryRole.USER, text="And the port of production?", author="Ana"),
    ChatEntry(role="assistant", content="7411."),
]
stored = append.sync(client=client, body=AppendRequest(key="python", title="Ports", entries=entries))
assert stored.slug == "ports" and stored.messages == [0, 1, 2, 3], stored
listed = sessions.sync(client=client)
assert [it.slug for it in listed.conversations] == ["ports"] and not listed.more, listed
found = search.sync(client=client, body=SearchRequest(query="which port does staging use"))
assert "7410" in found.hits[0].snippet, found
built = context.sync(client=client, body=ContextParams(conversation="ports", query="production", budget=1000))
assert "7411" in built.text, built
refused = search.sync(client=client, body=SearchRequest(query=" "))
assert isinstance(refused, Problem) and "empty" in refused.error, refused
print("the Python client: ok")
