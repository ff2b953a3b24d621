"""The pages of a dump on disk, while they wait for the redirects that stand behind them."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from crag_core.errors import SettingsError
from deployments.backends.dumps.page_extract import ExtractedPage
from deployments.backends.indexes.index_rows import Rejection, SnapshotRow, nfc

_TABLES = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS pages (
    id TEXT UNIQUE, title TEXT, text TEXT, url TEXT, revision TEXT, disambiguation INTEGER
);
CREATE TABLE IF NOT EXISTS redirects (id TEXT PRIMARY KEY, name TEXT, target TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rejections (file TEXT, line INTEGER, reason TEXT);
CREATE TABLE IF NOT EXISTS taken (file INTEGER PRIMARY KEY, pages INTEGER, is_whole INTEGER);
BEGIN EXCLUSIVE;
COMMIT;
"""
_REDIRECTS_OF = """
WITH RECURSIVE leading(id, name) AS (
    SELECT id, name FROM redirects WHERE target = ?1
    UNION SELECT redirects.id, redirects.name FROM redirects JOIN leading ON target = leading.id
)
SELECT name FROM leading WHERE NOT EXISTS (SELECT 1 FROM pages WHERE pages.id = leading.id)
ORDER BY name
"""
"""Redirects to a page, and to those redirects; a name that is a page too belongs to that page."""


class PageStore:
    """A database file; what was added is kept whole or not at all, whenever the process ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator["PageStore"]:
        """Open a store, or create it; raises SettingsError when another build has it open."""
        try:
            connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
            try:
                connection.executescript(_TABLES)
                yield cls(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise SettingsError(
                f"{path}, which keeps what was read so far, cannot be used ({error}): "
                "wait for the other build, make room on the disk, or delete the file to start over"
            ) from error

    def taken(self, file: int) -> int | None:
        """How many pages of the file of that number are already here; None when all are."""
        found = self._connection.execute(
            "SELECT pages, is_whole FROM taken WHERE file = ?", [file]
        ).fetchone()
        pages, is_whole = found or (0, False)
        return None if is_whole else int(pages)

    def add(self, file: int, name: str, extracted: Sequence[ExtractedPage]) -> None:
        """Take the next pages of a file, all of them or none."""
        self._connection.execute("BEGIN")
        with self._connection:
            for page in extracted:
                self._take(name, page)
            self._connection.execute(
                "INSERT INTO taken VALUES (?1, ?2, 0) "
                "ON CONFLICT (file) DO UPDATE SET pages = pages + ?2",
                [file, len(extracted)],
            )

    def finish(self, file: int) -> None:
        """Note that a file was read to its end."""
        self._connection.execute(
            "INSERT INTO taken VALUES (?, 0, 1) ON CONFLICT (file) DO UPDATE SET is_whole = 1", [file]
        )

    def counts(self) -> tuple[int, int]:
        """Pages and rejections so far."""
        rows, rejected = self._connection.execute(
            # no row is ever deleted, and a maximum is found without a walk through all of them
            "SELECT (SELECT ifnull(max(rowid), 0) FROM pages), "
            "(SELECT ifnull(max(rowid), 0) FROM rejections)"
        ).fetchone()
        return rows, rejected

    def rejections(self) -> Iterator[Rejection]:
        """Every page that cannot be in the snapshot, in the order they were read."""
        for row in self._connection.execute("SELECT * FROM rejections ORDER BY rowid"):
            yield Rejection(*row)

    def rows(self) -> Iterator[SnapshotRow]:
        """Every page in the order they were read, its redirects folded in."""
        self._connection.execute("CREATE INDEX IF NOT EXISTS targets ON redirects (target)")
        pages = self._connection.execute("SELECT * FROM pages ORDER BY rowid")
        for key, title, text, url, revision, disambiguation in pages:
            names = [name for (name,) in self._connection.execute(_REDIRECTS_OF, [key])]
            yield SnapshotRow(
                title=title,
                text=text,
                url=url,
                revision=revision,
                redirects=names,
                disambiguation=bool(disambiguation),
            )

    def _take(self, file: str, extracted: ExtractedPage) -> None:
        page, fault = extracted.page, extracted.fault
        if extracted.redirect:
            self._connection.execute(
                "INSERT OR IGNORE INTO redirects VALUES (?, ?, ?)",
                [_key(page.title), page.title, _key(extracted.redirect)],
            )
        elif extracted.text is not None:
            row = [extracted.text, extracted.url, page.revision, extracted.is_disambiguation]
            added = self._connection.execute(
                "INSERT OR IGNORE INTO pages VALUES (?, ?, ?, ?, ?, ?)",
                [_key(page.title), page.title, *row],
            )
            fault = None if added.rowcount else "an earlier page has its title"
        if fault:
            self._connection.execute(
                "INSERT INTO rejections VALUES (?, ?, ?)",
                [file, page.line, f"page {page.title!r}: {fault}"],
            )


def _key(title: str) -> str:
    """The form in which a title and the target of a redirect meet."""
    return nfc("_".join(title.partition("#")[0].replace("_", " ").split()))
