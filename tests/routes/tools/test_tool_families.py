import pytest

from routes.tools.families import FORMATS, detect, format_named


@pytest.mark.parametrize(
    ("template", "tokens", "name"),
    [
        ("", [], "tagged"),
        ("{% for m in messages %}", ["<s>"], "tagged"),
        ("<tool_call>\n<function=", [], "tagged"),
        ("<tool_call> {{ tool_call.name }}", ["<|python_tag|>"], "tagged"),
        ("<arg_key>", ["<tool_call>"], "tagged"),
        ("<minimax:tool_call>", [], "minimax"),
        ("<longcat_tool_call>", ["<tool_call>"], "longcat"),
        ("<|tool_call>call:", [], "gemma4"),
        ("<start_function_call>", [], "function_gemma"),
        ("[TOOL_CALLS]", [], "mistral"),
        ("", ["[TOOL_CALLS]"], "mistral"),
        ("", ["<|python_tag|>"], "llama"),
        ("[func_name1(params_name1=params_value1)]", ["<|python_tag|>"], "pythonic"),
        ("<|python_start|>", ["<|python_tag|>"], "pythonic"),
        ("", ["<|tool_call_start|>", "<|python_tag|>"], "lfm2"),
        ("<|tool_calls_section_begin|>", [], "kimi"),
        ("<｜tool▁calls▁begin｜>", ["<tool_call>"], "deepseek"),
    ],
)
def test_a_family_is_told_by_template_or_else_by_tokens(template: str, tokens: list[str], name: str) -> None:
    assert detect(template, tokens).name == name


def test_every_format_is_found_by_its_name() -> None:
    assert all(format_named(name) is format and format.name == name for name, format in FORMATS.items())
    assert {"tagged", "hermes", "qwen_xml", "glm", "minicpm", "minimax"} <= FORMATS.keys()


def test_every_format_says_what_begins_and_what_ends_its_markup() -> None:
    for format in FORMATS.values():
        assert format.openers or format.bare
        assert all((*format.openers, *format.bare, *format.closers, *format.markers))


def test_tagged_shows_the_special_tokens_of_each_of_its_families() -> None:
    markers = set(format_named("tagged").markers)
    assert all(markers >= set(format_named(name).markers) for name in ("hermes", "qwen_xml", "glm", "minicpm"))
    assert {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_value>", "</param>"} <= markers


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(ValueError, match=r"tool format must be one of .*hermes, .*tagged, not 'nothing'"):
        format_named("nothing")
