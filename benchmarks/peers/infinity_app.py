"""infinity with one classifier, in its own environment."""

import sys
from importlib import import_module
from typing import Any

import uvicorn
from infinity_emb.args import EngineArgs
from infinity_emb.infinity_server import create_server
from infinity_emb.transformer.utils import PredictEngine


def main(model: str, port: str) -> None:
    """Serve on loopback until Ctrl-C."""
    # for a model with one output it would take its cross-encoder, which puts an end mark behind the
    # question too, and so gives scores that are not this model's
    choosing: Any = import_module("infinity_emb.inference.select_model")
    choosing.get_engine_type_from_config = lambda engine_args: PredictEngine.torch
    engine = EngineArgs(
        model_name_or_path=model,
        engine="torch",
        device="cpu",
        dtype="float32",
        bettertransformer=False,
        trust_remote_code=False,
        model_warmup=False,  # the contest has a warm-up of its own
    )
    app = create_server(engine_args_list=[engine])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
