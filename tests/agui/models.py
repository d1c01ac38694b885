"""Runs where ag-ui-protocol is installed: what its models make of inputs and events.

Reads {"input": …, "events": […]} from standard input. Prints the input as each way of dumping it writes it, and each event as the
models write it again.
"""

import json
import sys

from ag_ui.core import Event, RunAgentInput
from ag_ui.encoder import EventEncoder
from pydantic import TypeAdapter

asked = json.load(sys.stdin)
answer = {}
if asked.get("input"):
    model = RunAgentInput.model_validate(asked["input"])
    answer["by_alias"] = json.loads(model.model_dump_json(by_alias=True))
    answer["by_name"] = json.loads(model.model_dump_json())
    # As frameworks do that know nothing of the models' own serializers.
    answer["without_none"] = json.loads(model.model_dump_json(by_alias=True, exclude_none=True))
encoder, events = EventEncoder(), TypeAdapter(Event)
answer["events"] = [
    json.loads(encoder.encode(events.validate_python(event)).removeprefix("data: ")) for event in asked.get("events", [])
]
json.dump(answer, sys.stdout)
