"""The messages of gpt-oss ("harmony"): reasoning, content and tool calls in one markup. Pure.

An answer is a row of messages, each a header and a body:

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…<|return|>

The prompt ends with `<|start|>assistant`, so the first header lacks its beginning. The channel `analysis` is reasoning.
A message to an offered function (`to=functions.name` before or after the channel) is a call of it. All else is content:
`final`, the preambles in `commentary`, and a message to somebody unknown, whose text would be lost otherwise.
Bodies of a kind are set apart by a blank line. An end marker that is an end token has no text: the text just ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from routes.parts import Content, Part, Reasoning, ToolCall
from routes.reasoning.overlap import overlap
from routes.tools.format import Tools
from routes.tools.repair import dumps, repair

START = "<|channel|>analysis<|message|>"
END = "<|end|>"
MARKERS = ("<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>")

_MARKER = re.compile("|".join(re.escape(marker) for marker in MARKERS))
_HEADER_END = re.compile(r"<\|(?:message|start|end|return|call)\|>")
_CHANNEL = re.compile(r"<\|channel\|>\s*(analysis|commentary|final)")
_RECIPIENT = re.compile(r"to=([^\s<]+)")
_ADDRESSED = "to=functions."
"""Begins an answer whose header goes on where the prompt ended it."""
_Step = Callable[[list[Part]], bool]
"""Does what the held text allows, adds parts, and says whether to go on with the next step."""
_LONGEST_HEADER = 256
"""Characters without an end after which a header is taken for text. Real ones stay under 100."""


class HarmonySplitter:
    """A `Splitter` for the whole output, tool calls included."""

    done = False
    """An answer never ends for its thinking's sake."""

    def __init__(self, tools: Tools, opened: bool) -> None:
        """`tools`: what may be called; `opened`: the prompt ended inside a body of the channel `analysis`."""
        self._tools = tools
        self._held = ""
        self._begun = opened
        """Whether a message has begun, at any time."""
        self._kind: type[Reasoning] | type[Content] = Reasoning
        self._function: str | None = None
        """Whom the current message calls."""
        self._arguments: list[str] = []
        self._shown: set[type[Reasoning] | type[Content]] = set()
        self._apart = False
        """Whether the next text of the current message follows an earlier message of its kind."""
        self._step: _Step = self._body if opened else self._between

    @property
    def buffering(self) -> bool:
        """Whether a header, a call or what may be a marker is being held back."""
        return self._held != "" or self._function is not None

    def feed(self, text: str) -> list[Part]:
        """Take more text. Bodies pass at once, calls when they are complete."""
        parts: list[Part] = []
        self._held += text
        while self._held and self._step(parts):
            pass
        return parts

    def flush(self) -> list[Part]:
        """The text has ended: complete a call that can be repaired; a header without a body is nothing."""
        parts: list[Part] = []
        held, self._held = self._held, ""
        if self._step == self._between and held.strip():
            self._open("")
            self._take(held, parts)
        elif self._step == self._body:
            self._take(held, parts)
        self._close(parts)
        self._step = self._between
        return parts

    def _between(self, parts: list[Part]) -> bool:
        """Before the first message and after each one."""
        first = self._held.lstrip()
        if not first or any(literal.startswith(first) for literal in self._beginnings() if literal != first):
            return False
        marker = _MARKER.match(first)
        if marker is not None:
            return self._marker(marker.group(), first)
        if first.startswith(_ADDRESSED) and not self._begun:
            self._enter(first, self._header)
            return True
        if self._begun:
            self._held = first
        self._open("")
        return True

    def _beginnings(self) -> tuple[str, ...]:
        return MARKERS if self._begun else (*MARKERS, _ADDRESSED)

    def _marker(self, marker: str, text: str) -> bool:
        """What a marker between messages, the first thing in `text`, leads to."""
        rest = text[len(marker) :]
        if marker == "<|start|>":
            self._enter(rest, self._header)
        elif marker == "<|message|>":
            self._held = rest
            self._open("")
        elif marker in ("<|channel|>", "<|constrain|>"):
            self._enter(text, self._header)
        else:
            self._held = rest
        self._begun = True
        return True

    def _header(self, parts: list[Part]) -> bool:
        end = _HEADER_END.search(self._held)
        if end is not None and end.start() <= _LONGEST_HEADER:
            header, marker = self._held[: end.start()], end.group()
            if marker == "<|message|>":
                self._held = self._held[end.end() :]
                self._open(header)
            else:  # a header without a body
                self._enter(self._held[end.start() :], self._between)
            return True
        if end is None and len(self._held) <= _LONGEST_HEADER + max(map(len, MARKERS)):
            return False
        marker = _MARKER.match(self._held)
        self._held = self._held[marker.end() :] if marker else self._held
        self._open("")
        return True

    def _open(self, header: str) -> None:
        """Begin a message's body."""
        channels, recipient = _CHANNEL.findall(header), _RECIPIENT.search(header)
        name = recipient.group(1).removeprefix("functions.") if recipient else None
        self._function = name if name in self._tools else None
        self._kind = Reasoning if channels and channels[-1] == "analysis" else Content
        self._begun = True
        self._apart = self._kind in self._shown
        self._step = self._body

    def _body(self, parts: list[Part]) -> bool:
        marker = _MARKER.search(self._held)
        if marker is None:
            keep = max(overlap(self._held, literal) for literal in MARKERS)
            certain = len(self._held) - keep
            self._take(self._held[:certain], parts)
            self._held = self._held[certain:]
            return False
        self._take(self._held[: marker.start()], parts)
        if marker.group() in ("<|message|>", "<|constrain|>"):  # astray: no text, no end
            self._held = self._held[marker.end() :]
            return True
        self._close(parts)
        # A model may forget the end marker: a header ends the body too.
        goes_on = marker.group() in ("<|start|>", "<|channel|>")
        self._enter(self._held[marker.start() if goes_on else marker.end() :], self._between)
        return True

    def _take(self, text: str, parts: list[Part]) -> None:
        """More of the current body."""
        if self._function is not None:
            self._arguments.append(text)
        elif text:
            parts.append(self._kind("\n\n" + text if self._apart else text))
            self._apart = False
            self._shown.add(self._kind)

    def _close(self, parts: list[Part]) -> None:
        """The current body has ended."""
        name, body = self._function, "".join(self._arguments)
        self._function = None
        self._arguments.clear()
        if name is None:
            return
        arguments = _arguments(body, self._tools[name])
        if arguments is not None:
            parts.append(ToolCall(name, arguments))
        elif body.strip():
            self._kind = Content
            self._apart = Content in self._shown
            self._take(body, parts)

    def _enter(self, rest: str, step: _Step) -> None:
        self._held, self._step = rest, step


def _arguments(body: str, schema: Mapping[str, object]) -> str | None:
    """JSON text of an object; None if nothing can be made of the body."""
    if not body.strip():
        # What takes nothing may be called with nothing. Otherwise the call was cut off.
        return None if schema.get("required") else "{}"
    value = repair(body)
    try:
        return dumps(value) if isinstance(value, dict) else None
    except ValueError:  # an object that JSON has no words for
        return None
