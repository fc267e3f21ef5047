import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.errors import InvalidRequest, StartError
from routes.tokenizer import ChatTokenizer, pack_tokens
from tests.routes.harness import END, TEMPLATE, byte_tokenizer

USER = {"role": "user", "content": "hi"}


def test_a_conversation_is_rendered_up_to_the_assistants_turn() -> None:
    tokenizer = byte_tokenizer()
    text = "<|start|>user:hi<|end|><|start|>assistant:"
    assert tokenizer.render_text([USER], {}) == text
    assert tokenizer.decode(tokenizer.prepare([USER], {}).tokens) == text
    assert tokenizer.prepare([USER], {}).tokens.count(END) == 1


def test_template_variables_reach_the_template() -> None:
    assert byte_tokenizer().render_text([USER], {"enable_thinking": False}).endswith("[quick]")
    assert not byte_tokenizer().render_text([USER], {"enable_thinking": True}).endswith("[quick]")


@pytest.mark.parametrize(
    ("template", "messages", "reason"),
    [
        (TEMPLATE, [{"role": "tool", "content": "x"}], "a tool needs an id"),
        ("{{ messages[0].content.missing.field }}", [USER], "has no attribute"),
        ("{{ 1 / 0 }}", [USER], "division by zero"),
        ("{{ messages | no_such_filter }}", [USER], "no_such_filter"),
        ("{% if %}", [USER], "Expected an expression"),
        ("{{ messages[0].content + 5 }}", [USER], "can only concatenate str"),
        (None, [USER], "the model has no chat template"),
    ],
)
def test_whatever_goes_wrong_in_a_template_is_the_requests_fault(
    template: str | None, messages: list[dict[str, str]], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=r"^prompt build failed: ") as caught:
        byte_tokenizer(template).prepare(messages, {})
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("template", "effort", "expected"),
    [
        ("{{ reasoning_effort }}", "minimal", "low"),
        ("{{ reasoning_effort }}", "high", "high"),
        ("{{ reasoning_effort }}", "xhigh", "high"),
        ("{{ reasoning_effort }}{# low medium xhigh #}", "high", "xhigh"),
        ("{{ reasoning_effort }}", "none", ""),
        ("{{ enable_thinking is defined }}", "high", "False"),
    ],
)
def test_reasoning_depth_is_told_in_the_words_of_the_template(template: str, effort: str, expected: str) -> None:
    assert byte_tokenizer(template).render_text([USER], {}, effort) == expected


def test_a_depth_set_as_a_template_variable_wins() -> None:
    text = byte_tokenizer("{{ reasoning_effort }}").render_text([USER], {"reasoning_effort": "mine"}, "high")
    assert text == "mine"


def test_thinking_is_known_from_the_template() -> None:
    assert byte_tokenizer().thinking
    assert not byte_tokenizer("{{ messages }}").thinking
    assert not byte_tokenizer(None).thinking


def test_raw_text_may_hold_what_looks_like_special_tokens() -> None:
    assert byte_tokenizer().encode("a<|end|>")[-1] == END


def test_tokens_travel_as_four_little_endian_bytes() -> None:
    assert pack_tokens([1, 258, 2**32 - 1]) == b"\x01\0\0\0\x02\x01\0\0\xff\xff\xff\xff"


def test_a_folder_without_a_tokenizer_is_a_start_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot load the tokenizer in"):
        ChatTokenizer.load(tmp_path)


def test_a_saved_tokenizer_is_loaded_without_mlx_and_torch(tmp_path: Path) -> None:
    saved = byte_tokenizer()
    saved._tokenizer.save_pretrained(tmp_path)
    code = (
        "import sys; from pathlib import Path; from routes.tokenizer import ChatTokenizer\n"
        "tokenizer = ChatTokenizer.load(Path(sys.argv[1]))\n"
        "assert not {'mlx', 'torch', 'ray'} & set(sys.modules)\n"
        "print(tokenizer.prepare([{'role': 'user', 'content': 'hi'}], {}).tokens)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(saved.prepare([USER], {}).tokens)
    assert done.stderr == ""


STRICT = (
    "{% for message in messages %}"
    "{% if message.role == 'system' and (no_system is defined or not loop.first) %}"
    "{{ raise_exception('no ' ~ message.content ~ ' at ' ~ loop.index) }}{% endif %}"
    "{{ message.role }}:{{ message.content }};"
    "{% endfor %}"
)
SCATTERED = [USER, {"role": "system", "content": "A"}, {"role": "user", "content": "ho"}]


def test_a_template_that_refuses_the_order_of_roles_gets_another_one() -> None:
    tokenizer = byte_tokenizer(STRICT)
    assert tokenizer.render_text(SCATTERED, {}) == "system:A;user:hi\n\nho;"
    assert tokenizer.render_text(SCATTERED, {"no_system": True}) == "user:A\n\nhi\n\nho;"


def test_the_error_is_that_of_the_conversation_as_it_was_sent() -> None:
    template = STRICT + "{{ raise_exception('no end') }}"
    with pytest.raises(InvalidRequest, match="no A at 2"):
        byte_tokenizer(template).render_text(SCATTERED, {})


def test_tools_reach_the_template_only_when_there_are_any() -> None:
    tokenizer = byte_tokenizer("{% if tools %}{{ tools[0].function.name }}{% else %}none{% endif %}")
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert tokenizer.render_text([USER], {}, tools=tools) == "f"
    assert tokenizer.decode(tokenizer.prepare([USER], {}, None, tools).tokens) == "f"
    assert tokenizer.render_text([USER], {}, tools=[]) == "none"


def test_a_prepared_prompt_shows_how_it_ends() -> None:
    tokenizer = byte_tokenizer()
    prepared = tokenizer.prepare([{"role": "user", "content": "x" * 1000}], {})
    assert tokenizer.decode(prepared.tokens).endswith(prepared.tail)
    assert prepared.tail.endswith("xx<|end|><|start|>assistant:")
    assert len(prepared.tail) == 400


@pytest.mark.parametrize(
    ("template", "direct"),
    [
        ("[gMASK]<sop>{{ enable_thinking }}{# Reasoning Effort: #}", True),
        ('{# <function name=" <param name=" #}{{ enable_thinking }}', True),
        ("[gMASK]<sop>{{ enable_thinking }}", False),
        ("{{ enable_thinking }}", False),
    ],
)
def test_families_that_answer_directly_do_so_unless_thinking_is_asked_for(template: str, direct: bool) -> None:
    tokenizer = byte_tokenizer(template)
    assert tokenizer.render_text([USER], {}).removeprefix("[gMASK]<sop>") == ("False" if direct else "")
    assert tokenizer.render_text([USER], {"enable_thinking": True}).endswith("True")


def test_special_tokens_have_text_only_where_they_are_markers() -> None:
    tokenizer = byte_tokenizer()
    tokens = tokenizer.encode("a<|start|>b<|end|>")
    shown = tokenizer.detokenizer(frozenset({"<|start|>"}))
    hidden = tokenizer.detokenizer()
    assert "".join([shown.feed(token) for token in tokens]) + shown.flush() == "a<|start|>b"
    assert "".join([hidden.feed(token) for token in tokens]) + hidden.flush() == "ab"


def test_special_and_added_tokens_are_known() -> None:
    tokenizer = byte_tokenizer()
    assert tokenizer.tokens == {"<|end|>", "<|start|>"}


def test_the_text_of_the_template_is_there_to_be_read() -> None:
    assert byte_tokenizer().template_text == TEMPLATE
    assert byte_tokenizer(None).template_text == ""


@pytest.mark.parametrize(
    "work",
    [
        lambda tokenizer, text: tokenizer.encode(text),
        lambda tokenizer, text: tokenizer.prepare([{"role": "user", "content": text}], {}),
        lambda tokenizer, text: tokenizer.prepare([{"role": "user", "content": text}], {}, boundaries=True),
    ],
    ids=["raw", "chat", "boundaries"],
)
def test_other_threads_go_on_while_a_long_text_is_tokenized(work: Callable[[ChatTokenizer, str], object]) -> None:
    tokenizer, text, done = byte_tokenizer(), "word " * 60_000, threading.Event()
    begun = [0.0, 0.0]

    def tokenize() -> None:
        begun[0] = time.perf_counter()
        work(tokenizer, text)
        begun[1] = time.perf_counter()
        done.set()

    thread = threading.Thread(target=tokenize)
    thread.start()
    turns: list[float] = []
    while not done.wait(0.001):
        turns.append(time.perf_counter())
    thread.join()
    # Kept out, this thread would have had turns at the ends alone, where Python itself was at work.
    first, last = begun[0] + (begun[1] - begun[0]) * 0.1, begun[0] + (begun[1] - begun[0]) * 0.4
    assert [turn for turn in turns if first < turn < last]
