"""Chat templates of the route tests, in the manner of real families."""

from __future__ import annotations

_TURNS = (
    "{% if tools %}[tools]{{ tools | tojson }}[/tools]{% endif %}"
    "{% for message in messages %}<|start|>{{ message.role }}:"
    "{% if message.reasoning_content is defined %}({{ message.reasoning_content }}){% endif %}"
    "{{ message.content }}"
    "{% for call in message.tool_calls or [] %}"
    "<tool_call>{{ call.function.name }}"
    "{% for key, value in call.function.arguments.items() %} {{ key }}={{ value }}{% endfor %}</tool_call>"
    "{% endfor %}<|end|>{% endfor %}"
)
TOOLS = _TURNS + "<|start|>assistant:"
"""Of a model that calls tools in the manner of Hermes and does not think."""

THINK = (
    _TURNS + "<|start|>assistant:{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}"
)
"""As `TOOLS`, of a model that opens its thinking by itself."""

OPENED = (
    _TURNS + "<|start|>assistant:{% if enable_thinking is defined and not enable_thinking %}<think></think>"
    "{% else %}<think>\n{% endif %}"
)
"""As `THINK`, but the prompt opens the block."""

STRIPPING = (
    "{% set turn = namespace(began=0) %}"
    "{% for message in messages %}{% if message.role == 'user' %}{% set turn.began = loop.index0 %}{% endif %}"
    "{% endfor %}"
    "{% for message in messages %}<|start|>{{ message.role }}:"
    "{% if message.role == 'assistant' %}"
    "{% if loop.index0 > turn.began %}<think>\n\n</think>\n\n{% endif %}"
    "{{ message.content.split('</think>')[-1].lstrip() }}"
    "{% else %}{{ message.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant:<think>\n{% endif %}"
)
"""As `OPENED`, but thinking goes from turns that are over, and its block too (Qwen3.5)."""

EFFORT = (
    "{% for message in messages %}<|start|>{{ message.content }}{% endfor %}"
    "[effort={{ reasoning_effort | default('unset') }} thinking={{ enable_thinking | default('unset') }}]</think>"
)
"""Shows what it is given."""

HARMONY = (
    "{% for message in messages %}<|start|>{{ message.role }}<|message|>{{ message.content }}<|end|>{% endfor %}"
    "<|start|>assistant{# <|channel|> #}"
)
"""Of gpt-oss."""
HARMONY_TOKENS = ("<|channel|>", "<|message|>", "<|constrain|>", "<|return|>", "<|call|>")
