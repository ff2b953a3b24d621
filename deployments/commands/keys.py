"""`crag key`: API keys, made here and kept as hashes."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr, ValidationError

from crag_core.errors import SettingsError
from deployments.api.keys import ApiKey, Keys, Permission, new_secret, sha256_of
from deployments.commands.terminal import JsonFlag, err, out, sentences_for_errors

key = typer.Typer(no_args_is_help=True, help="API keys.")


@key.callback()
def keys() -> None:
    """API keys: a file of hashes, which the server reads again when it changes."""


@key.command()
def add(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="Whose key it is.")],
    file: Annotated[Path, typer.Option(help="The keys file; made when it is not there.")],
    permission: Annotated[
        list[Permission] | None, typer.Option(help="What it opens; by default `ask`.")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(help="Requests of this id in a minute at most.", min=1)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key, show it once, and add its hash to the file.

    A second key of one id replaces the first without a moment without any: give it to the client, then
    delete the older line.
    """
    with sentences_for_errors():
        secret = new_secret()
        try:
            added = ApiKey(
                id=key_id,
                sha256=sha256_of(secret),
                permissions=tuple(permission or [Permission.ASK]),
                requests_per_minute=requests_per_minute,
            )
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            raise SettingsError(f"{problem['loc'][0]}: {problem['msg']}") from None
        _append(file, added.model_dump_json())
    if as_json:
        out.print_json(data={"id": key_id, "key": secret, "file": str(file)})
    else:
        err.print(f"added a key of {key_id} to {file}; it is shown here and nowhere else:")
        out.print(secret, soft_wrap=True)


def _append(file: Path, line: str) -> None:
    """The file with one more line, checked as a whole and written aside."""
    try:
        text = file.read_text("utf-8") if file.exists() else ""
        text = f"{text.rstrip()}\n{line}\n".lstrip()
        Keys(SecretStr(text))
        partial = file.with_name(f"{file.name}.partial")
        partial.touch(mode=0o600)
        partial.write_text(text, "utf-8")
        partial.replace(file)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot add a key to {file}: {error}") from error
