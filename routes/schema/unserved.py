"""Fields of the protocol whose function this server does not have yet. Pure.

Their values are checked like all others; one that would change the answer is refused by name, never ignored.
A value that asks for nothing (null, an empty list, a penalty of 0) passes.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.errors import InvalidRequest
from routes.schema import fields
from routes.schema.fields import Body

_MOST = 2**31 - 1
_EFFECTLESS = 1e-12
"""A penalty closer than this to its neutral value changes no token."""
_CURVE = ("width", "shoulder", "toe", "pivot_offset")
_GUIDED = ("guided_grammar", "guided_regex", "guided_choice", "structured_outputs")


def refuse_unserved(body: Body) -> None:
    """Check the fields of both completion routes that cannot be served.

    Raises:
        InvalidRequest: one is ill-typed, or asks for something.
    """
    _choices(body)
    _logit_bias(body)
    _logprobs(body)
    _penalties(body)
    _xtc(body)
    _tone_curve(body)
    _constraints(body)
    _adapter(body)


def refuse_tools(body: Body) -> None:
    """Check `tools` and `tool_choice`.

    Raises:
        InvalidRequest: one is ill-typed, or there are tools and `tool_choice` is not "none".
    """
    tools = fields.array(body, "tools") or ()
    for index, tool in enumerate(tools):
        _check_tool(f"tools[{index}]", tool)
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        function = choice.get("function")
        if choice.get("type") != "function" or not isinstance(function, dict) or not _name(function):
            raise InvalidRequest("tool_choice must name a function")
    elif choice not in (None, "none", "auto"):
        raise InvalidRequest("tool_choice must be 'none', 'auto' or an object that names a function")
    if tools and choice != "none":
        raise InvalidRequest(_unserved("tools"))


def _check_tool(where: str, tool: object) -> None:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise InvalidRequest(f"{where} must be an object of type 'function'")
    function = tool.get("function")
    if not isinstance(function, dict) or not _name(function):
        raise InvalidRequest(f"{where}.function must have a name")
    if not isinstance(function.get("parameters") or {}, dict):
        raise InvalidRequest(f"{where}.function.parameters must be an object")


def _name(function: Mapping[str, object]) -> bool:
    name = function.get("name")
    return isinstance(name, str) and bool(name)


def _choices(body: Body) -> None:
    if (fields.integer(body, "n", 1, _MOST) or 1) > 1:
        raise InvalidRequest("n must be 1: this server gives one choice a request")


def _logit_bias(body: Body) -> None:
    bias = body.get("logit_bias")
    if bias is None:
        return
    if not isinstance(bias, dict) or not all(_is_token(key) and _is_number(value) for key, value in bias.items()):
        raise InvalidRequest("logit_bias must be a dict of int to float")
    if bias:
        raise InvalidRequest(_unserved("logit_bias"))


def _is_token(key: str) -> bool:
    return key.isascii() and key.isdigit()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _logprobs(body: Body) -> None:
    wanted = fields.boolean(body, "logprobs")
    top = body.get("top_logprobs")
    if top is not None and (isinstance(top, bool) or not isinstance(top, int)):
        raise InvalidRequest("top_logprobs must be of type int")
    if isinstance(top, int) and top != -1:
        fields.integer(body, "top_logprobs", 0, 11)
    if wanted:
        raise InvalidRequest(_unserved("logprobs"))
    if isinstance(top, int) and top > 0:
        raise InvalidRequest(_unserved("top_logprobs"))


def _penalties(body: Body) -> None:
    repetition = fields.number(body, "repetition_penalty", 0, 1000)
    presence = fields.number(body, "presence_penalty", -1000, 1000)
    frequency = fields.number(body, "frequency_penalty", -1000, 1000)
    for name in ("repetition_context_size", "presence_context_size", "frequency_context_size"):
        fields.integer(body, name, 0, _MOST)
    if repetition and abs(repetition - 1.0) > _EFFECTLESS:
        raise InvalidRequest(_unserved("repetition_penalty"))
    if presence and abs(presence) > _EFFECTLESS:
        raise InvalidRequest(_unserved("presence_penalty"))
    if frequency and abs(frequency) > _EFFECTLESS:
        raise InvalidRequest(_unserved("frequency_penalty"))


def _xtc(body: Body) -> None:
    fields.number(body, "xtc_threshold", 0, 0.5)
    if fields.number(body, "xtc_probability", 0, 1):
        raise InvalidRequest(_unserved("xtc_probability"))


def _tone_curve(body: Body) -> None:
    curve = fields.mapping(body, "hlg")
    if curve is None:
        return
    named = {f"hlg.{key}": value for key, value in curve.items()}
    for name in _CURVE:
        fields.number(named, f"hlg.{name}", 0, 100)
    if fields.boolean(named, "hlg.enabled"):
        raise InvalidRequest(_unserved("hlg"))


def _constraints(body: Body) -> None:
    response_format = fields.mapping(body, "response_format")
    if response_format is not None:
        kind = response_format.get("type")
        if kind not in ("text", "json_object", "json_schema"):
            raise InvalidRequest("response_format.type must be one of 'text', 'json_object', 'json_schema'")
        if kind == "json_schema" and not isinstance(response_format.get("json_schema"), dict):
            raise InvalidRequest("response_format.json_schema must be an object")
        if kind != "text":
            raise InvalidRequest(_unserved("response_format"))
    fields.string(body, "guided_grammar")
    fields.string(body, "guided_regex")
    choices = fields.array(body, "guided_choice")
    if choices is not None and not all(isinstance(word, str) for word in choices):
        raise InvalidRequest("guided_choice must be an array of strings")
    fields.mapping(body, "structured_outputs")
    for name in _GUIDED:
        if body.get(name) is not None:
            raise InvalidRequest(_unserved(name))


def _adapter(body: Body) -> None:
    if fields.string(body, "adapter") not in (None, "none"):
        raise InvalidRequest(_unserved("adapter"))


def _unserved(name: str) -> str:
    return f"{name} is not supported by this server"
