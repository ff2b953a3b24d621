"""infinity with one classifier, in its own environment."""

import sys

import uvicorn
from infinity_emb.args import EngineArgs
from infinity_emb.infinity_server import create_server


def main(model: str, port: str) -> None:
    """Serve on loopback until Ctrl-C."""
    engine = EngineArgs(
        model_name_or_path=model,
        engine="torch",
        device="cpu",
        dtype="float32",
        bettertransformer=False,
        trust_remote_code=False,
        lengths_via_tokenize=True,
    )
    app = create_server(engine_args_list=[engine])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    main(*sys.argv[1:])
