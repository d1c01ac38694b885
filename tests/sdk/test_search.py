"""What an unmodified SDK publishes is found by others, without another step."""

import pytest
from aund import eventually


# Earlier versions publish only when they are told to.
@pytest.mark.smoke
@pytest.mark.sdk(since="0.5.25")
def test_an_agent_that_registered_is_found(server, agent):
    alice = agent()
    alice.register()
    alice.ready()
    name = alice.aid.split(".")[0]

    found = eventually("the directory has it", lambda: items(alice, {"q": f"agent {name}"}), seconds=20, every=0.5)

    [item] = [item for item in found if item["aid"] == alice.aid]
    assert (item["name"], item["type"], item["signed"]) == (name, "agent", True)
    document = alice.call(method="search.get_agent", params={"aid": alice.aid})
    assert document["agent_md"].startswith("---")
    assert items(alice, {"q": alice.aid})[0]["aid"] == alice.aid


def items(agent, params):
    return agent.call(method="search.query", params=params)["items"]
