"""Copies serve_config.yaml into the RayService, whose `serveConfigV2` is the last thing in its file."""

from pathlib import Path

_HERE = Path(__file__).parent
_MARK = "  serveConfigV2: |\n"


def embedded(service: str, config: str) -> str:
    """The RayService's text with this config in it."""
    head, mark, _ = service.partition(_MARK)
    return head + mark + "".join(f"    {line}".rstrip() + "\n" for line in config.splitlines())


if __name__ == "__main__":
    service = _HERE / "rayservice.yaml"
    text = embedded(
        service.read_text("utf-8"), (_HERE.parents[1] / "serve_config.yaml").read_text("utf-8")
    )
    service.write_text(text, "utf-8")
