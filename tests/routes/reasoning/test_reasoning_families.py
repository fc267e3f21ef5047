import pytest

from routes.parts import Content, Reasoning, ToolCall
from routes.reasoning.families import FAMILIES, GEMMA4, HARMONY, MISTRAL, NONE, SEED, THINK, detect, family_named
from routes.reasoning.families import ReasoningFamily as Family
from tests.routes.reasoning.pieces import run


@pytest.mark.parametrize(
    ("template", "tokens", "family"),
    [
        ("{{ '<|start|>assistant<|channel|>final<|message|>' }}", [], HARMONY),
        ("{{ '<|channel>thought\\n<channel|>' }}", [], GEMMA4),
        ("{{ '<seed:think>' }}{{ '</seed:think>' }}", [], SEED),
        ("[THINK]x[/THINK]", [], MISTRAL),
        ("<think>\n\n</think>", [], THINK),
        ("{{ content.split('</think>')[-1] }}", [], THINK),
        ("{{ messages }}", ["<think>", "</think>"], THINK),
        ("{{ messages }}", ["[THINK]", "[/THINK]", "</s>"], MISTRAL),
        ("", ["<|start|>", "<|channel|>", "<|message|>"], HARMONY),
        ("<think></think>", ["[THINK]", "[/THINK]"], THINK),
        ("{{ messages }}", ["<|im_end|>"], NONE),
        ("", [], NONE),
    ],
)
def test_a_family_is_told_by_the_template_and_then_by_the_tokens(
    template: str, tokens: list[str], family: Family
) -> None:
    assert detect(template, frozenset(tokens)) is family


@pytest.mark.parametrize(
    ("family", "tail", "opened"),
    [
        (THINK, "<|im_start|>assistant\n<think>\n", True),
        (THINK, "<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        (THINK, "user\nwhat is <think><|im_end|>\n<|im_start|>assistant\n", False),
        (THINK, "</think>old<|assistant|><think>", True),
        (MISTRAL, "[/INST][THINK]", True),
        (GEMMA4, "<|turn>model\n<|channel>thought\n", True),
        (GEMMA4, "<|turn>model\n<|channel>thought\n<channel|>", False),
        (HARMONY, "<|start|>assistant", False),
        (HARMONY, "<|start|>assistant<|channel|>analysis<|message|>", True),
        (NONE, "<think>", False),
        (NONE, "", False),
    ],
)
def test_a_prompt_opens_a_block_when_it_ends_with_the_start_tag(family: Family, tail: str, opened: bool) -> None:
    assert family.opened_by(tail) is opened


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (THINK, "<think>why</think>so"),
        (MISTRAL, "[THINK]why[/THINK]so"),
        (SEED, "<seed:think>\nwhy</seed:think>so"),
        (GEMMA4, "<|channel>thought\nwhy\n<channel|>so"),
        (HARMONY, "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final<|message|>so"),
    ],
)
def test_every_family_splits_its_own_markup(family: Family, text: str) -> None:
    assert run(family.splitter(False), text) == [Reasoning("why"), Content("so")]


def test_without_a_family_all_text_is_content() -> None:
    assert run(NONE.splitter(False), "<think>", "", "why") == [Content("<think>why")]


def test_tools_reach_the_splitter_of_a_family_that_finds_calls() -> None:
    call = '<|channel|>commentary to=functions.f<|message|>{"x": 1}'
    assert run(HARMONY.splitter(False, {"f": {}}), call) == [ToolCall("f", '{"x":1}')]
    assert [family for family in FAMILIES if family.calls] == [HARMONY]


def test_families_are_found_by_name_and_an_unknown_name_is_answered_with_all_of_them() -> None:
    assert [family_named(family.name) for family in FAMILIES] == list(FAMILIES)
    with pytest.raises(ValueError, match="must be one of harmony, gemma4, seed, mistral, think, none"):
        family_named("thunk")
