"""The `audio_sessions` section of the configuration: live transcription, and how many replicas serve it."""

from __future__ import annotations

from pydantic import Field, model_validator

from actors.section import Section


class SessionSettings(Section):
    """Live transcription: sessions whose audio arrives while it is recorded."""

    min_replicas: int = Field(default=1, ge=1, description="Replicas of the transcriber kept even when idle.")
    max_replicas: int = Field(
        default=3,
        ge=1,
        description="Replicas at most; above the minimum they follow open sessions. Each loads weights of its own.",
    )
    target_sessions: int = Field(default=8, ge=1, description="Open sessions a replica before another one is started.")
    downscale_delay_s: float = Field(
        default=30.0, ge=0, description="How long fewer replicas have to suffice before one is stopped."
    )
    max_sessions: int = Field(default=64, ge=1, description="Sessions open at once on a machine; one more answers 429.")
    idle_s: float = Field(default=300.0, gt=0, description="A session without a word from its client expires then.")
    max_s: float = Field(default=7200.0, gt=0, description="Seconds of audio of a session at most.")
    spool_dir: str | None = Field(
        default=None,
        min_length=1,
        description="Folder for the audio of open sessions, which lets another replica go on when one dies; unset "
        "takes `sessions` in the user's cache folder. Audio is deleted when its session ends.",
    )

    @model_validator(mode="after")
    def _bounds(self) -> SessionSettings:
        if self.max_replicas < self.min_replicas:
            raise ValueError(f"max_replicas is {self.max_replicas}, below min_replicas {self.min_replicas}")
        return self
