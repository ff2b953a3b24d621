"""Settings of the generator."""

from typing import Literal

from pydantic import Field

from crag_core.settings import Settings


class GeneratorSettings(Settings):
    """The generator: a chat model in vLLM."""

    model: str = Field(description="Folder or hub name of the chat model.")
    revision: str | None = Field(None, description="Pinned hub revision; null for a folder.")
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = Field(
        "auto", description="Weights and activations."
    )
    max_model_len: int = Field(4096, ge=128, description="Prompt and completion tokens at most.")
    max_num_seqs: int = Field(64, ge=1, description="Completions in flight in one engine.")
    gpu_memory_utilization: float = Field(
        0.9, gt=0.0, le=1.0, description="Share of the card that the engine may fill."
    )
    tensor_parallel_size: int = Field(1, ge=1, description="GPUs one engine is split over.")
    enforce_eager: bool = Field(False, description="Run without CUDA graphs; needed on a CPU.")
    wait_for_evaluator: bool = Field(
        False, description="Start only once the evaluator is resident: needed on a shared GPU."
    )
