"""From the `model` of a configuration to a checked folder on this machine."""

from __future__ import annotations

from pathlib import Path

from actors.errors import StartError
from actors.models import hub, starter
from actors.models.card import ModelCard, read_card


def prepare(model: str, *, progress: bool, trust_model_code: bool = False) -> ModelCard:
    """Have the model on this machine, and read its card. Blocks, for as long as a download takes.

    `model` is `starter`, a local folder, or the id of a hub repository; a folder of that name wins over the hub.
    With `progress` a bar is drawn when stderr is a terminal; otherwise progress is logged. May be repeated: what
    is there already is not fetched again. May be called by several processes at once.

    Raises:
        StartError: one sentence that says what is wrong with the model or the way to it.
    """
    folder, name = locate(model, progress=progress, code=trust_model_code)
    return read_card(folder, name, trust_model_code=trust_model_code)


def locate(model: str, *, progress: bool, code: bool = False) -> tuple[Path, str]:
    """The folder and the name of a model, fetched when it is not here. As `prepare`, without looking into it.

    `code` also fetches a repository's Python files.
    """
    if model == "starter":
        return starter.ensure(progress=progress), starter.MODEL_ID
    folder = Path(model).expanduser()
    if folder.is_dir():
        folder = folder.resolve()
        return folder, folder.name
    if folder.exists():
        raise StartError(f"{model} is a file; `model` should name the folder of a checkpoint")
    if _looks_local(model):
        raise StartError(f"there is no folder {folder.absolute()}")
    if "/" not in model:
        raise StartError(
            f"{model!r} is neither `starter`, nor a folder, nor the id of a repository such as `owner/name`"
        )
    return hub.fetch(model, progress=progress, code=code), model


def _looks_local(model: str) -> bool:
    return model.startswith(("/", "~", ".")) or model.count("/") > 1 or model.endswith("/")
