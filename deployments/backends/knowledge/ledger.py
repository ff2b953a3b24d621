"""The ledger of a build: what became of each passage, by the hash of what it says.

A build that was interrupted goes on from it: nothing is read twice, nothing is lost.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crag_core.errors import SettingsError

LEDGER = "ledger.sqlite"
"""File in a base's folder."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS made_by (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS passages (
    hash TEXT PRIMARY KEY,
    pairs TEXT NOT NULL,
    failure TEXT,
    attempts INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class PassageRead:
    """What reading one passage gave and cost; `pairs` as they were written, not yet judged."""

    hash: str
    pairs: list[Any]
    failure: str | None
    attempts: int
    prompt_tokens: int
    completion_tokens: int


class Ledger:
    """Passages read so far, on disk."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def opened(cls, file: Path, made_by: str) -> Iterator["Ledger"]:
        """A ledger, begun if there is none.

        Raises SettingsError when another model or prompt has made it, and when it cannot be used.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(file)) as connection:
                connection.executescript(_SCHEMA)
                connection.execute("INSERT OR IGNORE INTO made_by VALUES ('reader', ?)", (made_by,))
                connection.commit()
                (found,) = connection.execute("SELECT value FROM made_by").fetchone()
                if found != made_by:
                    raise SettingsError(
                        f"{file} was begun with the reader {found}, not {made_by}: "
                        "use that one, or name another folder"
                    )
                yield cls(connection)
        except sqlite3.Error as error:
            raise SettingsError(f"the ledger {file} cannot be used: {error}") from error

    def record(self, passage: PassageRead) -> None:
        """Write down one passage, at once and for good."""
        self._connection.execute(
            "INSERT OR REPLACE INTO passages VALUES (?, ?, ?, ?, ?, ?)",
            (
                passage.hash,
                json.dumps(passage.pairs),
                passage.failure,
                passage.attempts,
                passage.prompt_tokens,
                passage.completion_tokens,
            ),
        )
        self._connection.commit()

    def find(self, passage_hash: str) -> PassageRead | None:
        """What is known of a passage."""
        row = self._connection.execute(
            "SELECT hash, pairs, failure, attempts, prompt_tokens, completion_tokens "
            "FROM passages WHERE hash = ?",
            (passage_hash,),
        ).fetchone()
        return None if row is None else PassageRead(row[0], json.loads(row[1]), *row[2:])


def tokens_spent(file: Path) -> int | None:
    """Tokens that reading the corpus took, of prompts and completions, failed passages included.

    `None` where there is no ledger, as of imported pairs. Raises SettingsError when it cannot be read.
    """
    if not file.is_file():
        return None
    try:
        with closing(sqlite3.connect(file)) as connection:
            (tokens,) = connection.execute(
                "SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) FROM passages"
            ).fetchone()
    except sqlite3.Error as error:
        raise SettingsError(f"the ledger {file} cannot be read: {error}") from error
    return int(tokens)
