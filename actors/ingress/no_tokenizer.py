"""What stands in the place of the chat tokenizer when the served model only transcribes."""

from __future__ import annotations

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from routes.tokenizer import ChatTokenizer


def speechless_tokenizer() -> ChatTokenizer:
    """One that knows no word and has no template; nobody asks it for anything, since no chat is served."""
    from transformers import PreTrainedTokenizerFast

    return ChatTokenizer(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({}, unk_token=""))))
