"""Output items that are put together from deltas."""

from typing import Any

from hypothesis import strategies as st
from openai import omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent

HEAD = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "tools": [], "tool_choice": "auto"}


def put_together(events: list[dict[str, Any]], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items as OpenAI's accumulator reads them of the events alone. It raises at what breaks their order."""
    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    begun = {"type": "response.created", "response": {**HEAD, "status": "in_progress", "output": []}}
    ended = {"type": "response.completed", "response": {**HEAD, "status": "completed", "output": items}}
    for number, event in enumerate([begun, *events, ended]):
        union: Any = ResponseStreamEvent
        state.handle_event(construct_type(type_=union, value={**event, "sequence_number": number}))
    return [item.to_dict() for _, item in sorted(state._completed_output.items())]


def delta(**fields: Any) -> dict[str, Any]:
    return {"index": 0, "delta": fields, "finish_reason": None}


def begun(index: int, arguments: str = "") -> dict[str, Any]:
    function = {"name": f"f{index}", "arguments": arguments}
    return delta(tool_calls=[{"index": index, "id": f"call_{index}", "type": "function", "function": function}])


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
arguments = st.dictionaries(texts, st.one_of(texts, st.integers(-9, 9), st.lists(st.booleans(), max_size=2)), max_size=3)
