"""The rows that decode together, one step ahead of what has been read.

`advance` builds and starts a step from tokens that may not be computed yet, and only then reads the tokens of the
step before, so Python works while the device does. A lone row keeps its plain caches and takes mlx-lm's
single-request path; caches are merged when a second row joins and taken apart when one is left.

A row under a grammar needs its token before its next one can be picked. So while such a row is here, the forward pass
is started first, the tokens before it are read while the device computes, and the masks are made in that time too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import mlx.core as mx

from actors.generation import head, kv, marks
from actors.generation.grammar.masks import Masks, apply
from actors.generation.messages import Score
from actors.generation.penalties import LogitProcessors
from actors.generation.row import Row
from actors.generation.sampling import RowSampler
from actors.generation.scores import Pending, Scores

Read = list[tuple[Row, int, Score | None]]
"""Rows, the token each of them generated, and its score if the row asked for one."""


class _Picker:
    """Everything between the logits and the tokens of one set of rows; made anew when a row joins or leaves.

    Args:
        rows: in batch order.
        unread: which of them have a token in flight that their history lacks.
        beside: stream for what no later step needs.
    """

    def __init__(self, rows: Sequence[Row], unread: Sequence[bool], beside: mx.Stream) -> None:
        asked = [row.request.sampling for row in rows]
        histories = [row.tokens if flight else row.tokens[:-1] for row, flight in zip(rows, unread, strict=True)]
        self.process = LogitProcessors(asked, histories)
        self.sample = RowSampler(asked)
        self.scores = Scores([row.request.top_logprobs for row in rows], beside)
        self._matched = [(index, row) for index, row in enumerate(rows) if row.matcher is not None]

    @property
    def ruled(self) -> list[tuple[int, Row]]:
        """The rows whose next token is not free, and their places."""
        return [(index, row) for index, row in self._matched if row.matcher is not None and row.matcher.binding]


class DecodeBatch:
    """Rows in decoding. Engine thread only.

    Args:
        model: an mlx-lm model.
        beside: stream for what no later step needs; one of its own if None.
    """

    def __init__(self, model: Any, beside: mx.Stream | None = None) -> None:
        self._model = model
        self.rows: list[Row] = []
        self._caches: list[Any] = []
        self._merged = False
        self._inputs: mx.array | None = None
        self._unread: list[bool] = []
        self._picker: _Picker | None = None
        self._masks: Masks | None = None
        self.beside = beside or mx.new_stream(mx.default_device())
        self._scored: tuple[list[Row], Scores, Pending] | None = None
        self._taken: Read = []

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> int:
        """Bytes of the caches, padding included."""
        return kv.size(self._caches) if self.rows else 0

    @property
    def begins(self) -> bool:
        """Whether the step in flight is the first one of every row."""
        return bool(self.rows) and all(row.draws == 1 for row in self.rows)

    def add(self, rows: Sequence[Row], caches: list[Any], merged: bool) -> None:
        """Let rows join whose tokens but the last are computed.

        Args:
            rows: at least one.
            caches: their state: of one row (`merged` False) or a batch in the same order.
            merged: which of the two.
        """
        last = mx.array([row.tokens[-1] for row in rows], dtype=mx.int32)
        if not self.rows:
            self._caches, self._merged, self._inputs = caches, merged, last
        else:
            self._caches = self._together(caches, merged)
            self._merged = True
            assert self._inputs is not None
            self._inputs = mx.concatenate([self._inputs, last])
        for row in rows:
            row.caches = None
        self.rows.extend(rows)
        self._unread.extend([False] * len(rows))
        self._picker = None

    def begin(self, rows: Sequence[Row]) -> None:
        """Compute what is left of prompts, their last tokens too, and start picking first tokens. Into an empty batch.

        Args:
            rows: at least one; with several, the model's head gives the logits of `head.ends`. Their caches are taken.

        Raises:
            Exception: whatever the model raises.
        """
        assert not self.rows
        rests = [row.tokens[row.computed :] for row in rows]
        each = [row.caches or [] for row in rows]
        self.rows, self._unread, self._merged = list(rows), [False] * len(rows), len(rows) > 1
        caches = self._caches = kv.merge(each) if self._merged else each[0]
        for row, rest in zip(rows, rests, strict=True):
            row.computed += len(rest) - 1
            row.caches = None
        inputs = self._inputs = mx.array([rest[-1] for rest in rests], dtype=mx.int32)
        picker = self._picker = _Picker(self.rows, self._unread, self.beside)
        with kv.ending(caches, [len(rest) for rest in rests]), head.ends([len(rest) - 1 for rest in rests]):
            logits = self._model(mx.array(kv.padded(rests), dtype=mx.int32), cache=caches)[:, -1, :]
        self._step(picker, inputs, picker.process(logits, inputs))

    def release(self) -> tuple[list[Row], list[Any], bool]:
        """Empty the batch; its tokens are read. Returns its rows, their caches and whether these are merged."""
        caches, merged = self._caches, self._merged
        return self.clear(), caches, merged

    def advance(self) -> Read:
        """Start the next step, then read the one before.

        Returns:
            Tokens of the rows that took part in the step before.

        Raises:
            Exception: whatever the model raises. Then `clear` the batch; `taken` has what was read all the same.
        """
        if all(self._unread) and all(row.at_limit(ahead=1) for row in self.rows):
            return self.flush()
        inputs = self._inputs
        assert inputs is not None
        if self._picker is None:
            self._picker = _Picker(self.rows, self._unread, self.beside)
        picker = self._picker
        fresh = marks.beginning(self.rows)
        if fresh:
            return self._traced(picker, inputs, fresh)
        logits = self._model(inputs[:, None], cache=self._caches)[:, -1, :]
        return self._step(picker, inputs, picker.process(logits, inputs))

    def _traced(self, picker: _Picker, inputs: mx.array, fresh: list[Row]) -> Read:
        """A step that is some row's first and is to be measured: its parts are waited for, one after the other."""
        with marks.span(fresh, "token_zero.forward", rows=len(self.rows)):
            logits = self._model(inputs[:, None], cache=self._caches)[:, -1, :]
            mx.eval(logits)
        with marks.span(fresh, "token_zero.head"):
            logits = picker.process(logits, inputs)
            mx.eval(logits)
        with marks.span(fresh, "token_zero.sample"):
            read = self._step(picker, inputs, logits)
            mx.eval(self._inputs)
        return read

    def _step(self, picker: _Picker, inputs: mx.array, logits: mx.array) -> Read:
        """Pick tokens from processed logits, and read those of the step before."""
        if picker.ruled:
            mx.async_eval(logits)
            read = self._taken = self._read(inputs)
            scored = self._pick(picker, self._allowed(picker, logits), logits)
            self._taken = []
        else:
            scored = self._pick(picker, logits, logits)
            read = self._read(inputs)
        self._scored = scored
        for row in self.rows:
            row.draws += 1
            row.computed += 1
        self._unread = [True] * len(self.rows)
        return read

    def _allowed(self, picker: _Picker, logits: mx.array) -> mx.array:
        if self._masks is None:
            self._masks = Masks(logits.shape[-1])
        bits = self._masks.start(len(self.rows))
        for index, row in picker.ruled:
            if row.matcher is None or row.complete or row.fault is not None:
                continue
            try:
                row.matcher.fill(bits[index])
            except Exception as error:
                # Its own fault: the token picked now is read with the next step, and the row ends there.
                row.fault = error
        return apply(logits, bits)

    def _pick(self, picker: _Picker, allowed: mx.array, logits: mx.array) -> tuple[list[Row], Scores, Pending] | None:
        """Start picking tokens from the allowed logits, and scoring them by the unmasked ones."""
        self._inputs = picker.sample(allowed, [row.draws for row in self.rows])
        pending = picker.scores(logits, self._inputs)
        mx.async_eval(self._inputs, *(pending.arrays if pending else ()))
        return (list(self.rows), picker.scores, pending) if pending else None

    def flush(self) -> Read:
        """Wait for the step in flight and read it."""
        if self._inputs is None:
            return []
        read = self._read(self._inputs)
        self._unread = [False] * len(self.rows)
        return read

    def extract(self, row: Row) -> list[Any]:
        """Exact copies of a row's caches; they hold `row.computed` tokens."""
        return kv.exact(self.view(row))

    def view(self, row: Row) -> list[Any]:
        """A row's caches, good until the next step."""
        return kv.row_of(self._caches, self.rows.index(row), self._merged)

    def remove(self, gone: Sequence[Row]) -> None:
        """Let rows leave."""
        keep = [index for index, row in enumerate(self.rows) if row not in gone]
        if len(keep) == len(self.rows):
            return
        self.rows = [self.rows[index] for index in keep]
        self._unread = [self._unread[index] for index in keep]
        self._picker = None
        if not keep:
            self._caches, self._inputs, self._merged, self._scored = [], None, False, None
            return
        assert self._inputs is not None
        kept = mx.array(keep, dtype=mx.int32)
        self._inputs = self._inputs[kept]
        if len(keep) == 1:
            self._caches, self._merged = kv.row_of(self._caches, keep[0], self._merged), False
        else:
            for cache in self._caches:
                cache.filter(kept)

    def clear(self) -> list[Row]:
        """Forget everything in flight; the rows' caches are lost. Returns the rows."""
        rows, self.rows = self.rows, []
        self._caches, self._inputs, self._merged, self._unread = [], None, False, []
        self._picker = self._scored = None
        return rows

    def taken(self) -> Read:
        """What an `advance` that failed had read before: the rows' grammars have moved on by it. Once."""
        taken, self._taken = self._taken, []
        return taken

    def _together(self, caches: list[Any], merged: bool) -> list[Any]:
        if not self._merged and not merged:
            return kv.merge([self._caches, caches])
        mine = self._caches if self._merged else kv.merge([self._caches])
        theirs = caches if merged else kv.merge([caches])
        for own, other in zip(mine, theirs, strict=True):
            own.extend(other)
        return mine

    def _read(self, values: mx.array) -> Read:
        if not any(self._unread):
            return []
        tokens = cast(list[int], values.tolist())
        scores = self._read_scores()
        read: Read = []
        for row, token, unread in zip(self.rows, tokens, self._unread, strict=True):
            if unread:
                _accept(row, token)
                read.append((row, token, scores.get(row)))
        return read

    def _read_scores(self) -> dict[Row, Score]:
        if self._scored is None:
            return {}
        (rows, scores, pending), self._scored = self._scored, None
        return {rows[index]: score for index, score in scores.read(pending).items()}


def _accept(row: Row, token: int) -> None:
    """Move a row's grammar on. Whatever goes wrong with it is the row's own fault."""
    if row.matcher is None or row.fault is not None:
        return
    try:
        if not row.matcher.accept(token):
            row.fault = RuntimeError(row.matcher.problem or "the grammar cannot go on")
    except Exception as error:
        row.fault = error
