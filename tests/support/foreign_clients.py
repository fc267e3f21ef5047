"""Calls by client libraries that cannot live beside the server's: `foreign_clients.py URL LIBRARY` prints what came.

Runs in an environment of its own, where nothing of Troupe can be imported.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, Literal

import openai
import pydantic


class Place(pydantic.BaseModel):
    """A place on a map."""

    kind: Literal["city", "river"]
    size: int = pydantic.Field(ge=0, le=99)


MESSAGES: Any = [{"role": "user", "content": "What is the capital of France?"}]


def instructor(url: str) -> object:
    """A validated object, by way of a call that the library requires."""
    library: Any = importlib.import_module("instructor")
    client = library.from_openai(openai.OpenAI(base_url=url, api_key="none"))
    place = client.chat.completions.create(
        model="any", messages=MESSAGES, response_model=Place, temperature=0, max_tokens=80, max_retries=0
    )
    return place.model_dump()


def litellm(url: str) -> object:
    """A whole answer and a streamed one."""
    library: Any = importlib.import_module("litellm")
    options: Any = {"model": "openai/any", "api_base": url, "api_key": "none", "temperature": 0}
    whole = library.completion(messages=MESSAGES, **options)
    pieces = [
        chunk.choices[0].delta.content or "" for chunk in library.completion(messages=MESSAGES, stream=True, **options)
    ]
    return {"whole": whole.choices[0].message.content, "streamed": "".join(pieces), "tokens": whole.usage.total_tokens}


def litellm_responses(url: str) -> object:
    """An answer by the Responses protocol, whole, streamed, and continued."""
    library: Any = importlib.import_module("litellm")
    options: Any = {"model": "openai/any", "api_base": url, "api_key": "none", "temperature": 0}
    question = MESSAGES[0]["content"]
    whole = library.responses(input=question, **options)
    events = list(library.responses(input=question, stream=True, **options))
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    more = library.responses(input="Say it again.", previous_response_id=whole.id, max_output_tokens=4, **options)
    return {
        "whole": whole.output[0].content[0].text,
        "streamed": "".join(pieces),
        "tokens": whole.usage.total_tokens,
        "last": events[-1].type,
        "continued": more.usage.input_tokens > whole.usage.total_tokens,
    }


def litellm_messages(url: str) -> object:
    """An answer by the Messages protocol, whole and streamed."""
    library: Any = importlib.import_module("litellm")
    root = url.removesuffix("/v1")
    options: Any = {"model": "anthropic/any", "api_base": root, "api_key": "none", "temperature": 0, "max_tokens": 60}
    whole = library.completion(messages=MESSAGES, **options)
    pieces = [
        chunk.choices[0].delta.content or "" for chunk in library.completion(messages=MESSAGES, stream=True, **options)
    ]
    return {"whole": whole.choices[0].message.content, "streamed": "".join(pieces), "tokens": whole.usage.total_tokens}


def langchain_anthropic(url: str) -> object:
    """An answer whole and streamed, and a call of a tool that has to be made."""
    library: Any = importlib.import_module("langchain_anthropic")
    root = url.removesuffix("/v1")
    model = library.ChatAnthropic(model="any", base_url=root, api_key="none", max_tokens=60, temperature=0)
    question = MESSAGES[0]["content"]
    whole = model.invoke(question)
    chunks = list(model.stream(question))
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined += chunk
    call = model.bind_tools([Place], tool_choice="any").invoke("Call the tool for Paris, a city.").tool_calls[0]
    return {
        "whole": whole.text,
        "streamed": joined.text,
        "tokens": whole.usage_metadata["total_tokens"],
        "streamed_tokens": joined.usage_metadata["total_tokens"],
        "place": Place.model_validate(call["args"]).kind,
    }


def langchain_openai(url: str) -> object:
    """An answer by chat and by responses, whole and streamed, a call that has to be made, a form, a second turn."""
    library: Any = importlib.import_module("langchain_openai")
    options: Any = {"model": "any", "base_url": url, "api_key": "none", "temperature": 0, "max_tokens": 60}
    model = library.ChatOpenAI(**options)
    question = MESSAGES[0]["content"]
    chunks = list(model.stream(question, stream_usage=True))
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined += chunk
    call = model.bind_tools([Place], tool_choice="any").invoke("Call the tool for Paris, a city.").tool_calls[0]
    form = model.with_structured_output(Place, method="json_schema").invoke("Paris is a city.")
    other = library.ChatOpenAI(use_responses_api=True, use_previous_response_id=True, **options)
    turn = other.invoke(question)
    more = other.invoke([("user", question), turn, ("user", "Say it again.")])
    return {
        "whole": model.invoke(question).text,
        "streamed": joined.text,
        "streamed_tokens": joined.usage_metadata["total_tokens"],
        "called": Place.model_validate(call["args"]).kind,
        "formed": form.kind,
        "by_responses": turn.text,
        "streamed_by_responses": "".join(chunk.text for chunk in other.stream(question)),
        "continued": more.usage_metadata["input_tokens"] > turn.usage_metadata["total_tokens"],
    }


def llm(url: str) -> object:
    """A model as its users name one, in a file: an answer whole and streamed, a second turn, a form."""
    library: Any = importlib.import_module("llm")
    named = {"model_id": "troupe", "model_name": "any", "api_base": url, "supports_schema": True}
    # JSON is YAML.
    (library.user_dir() / "extra-openai-models.yaml").write_text(json.dumps([named]))
    model = library.get_model("troupe")
    model.key = "none"
    talk = model.conversation()
    question, options = MESSAGES[0]["content"], {"temperature": 0, "max_tokens": 60}
    first = talk.prompt(question, stream=False, **options)
    whole, used = first.text(), first.usage()
    more = talk.prompt("Say it again.", stream=False, **options)
    more.text()
    return {
        "whole": whole,
        "streamed": "".join(model.prompt(question, **options)),
        "tokens": used.input + used.output,
        "continued": more.usage().input > used.input + used.output,
        "formed": Place.model_validate_json(model.prompt("Paris is a city.", schema=Place, **options).text()).kind,
    }


if __name__ == "__main__":
    calls = {
        "langchain_anthropic": langchain_anthropic,
        "langchain_openai": langchain_openai,
        "llm": llm,
        "litellm_messages": litellm_messages,
        "instructor": instructor,
        "litellm": litellm,
        "litellm_responses": litellm_responses,
    }
    print(json.dumps(calls[sys.argv[2]](sys.argv[1])))
