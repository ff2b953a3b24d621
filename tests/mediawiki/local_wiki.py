"""A real MediaWiki on loopback: Debian's package unpacked, SQLite, and PHP's built-in server."""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_WIKI = Path(__file__).resolve().parent / "wiki"
_PACKAGES = ("mediawiki", "mediawiki-classes")
_PHP_MODULES = {"apcu", "dom", "intl", "mbstring", "pdo_sqlite"}
_WORKERS = 2
_START_TIMEOUT_S = 30.0
_AGENT = {"User-Agent": "crag-serve-tests (https://crag-serve.example)"}


class WikiUnavailable(Exception):
    """This machine cannot run a MediaWiki; the message says what it lacks."""


@dataclass(frozen=True)
class LocalWiki:
    """A running wiki: its Action API, the requests it has seen, and the faults it is told to have."""

    root: Path
    port: int
    source: Path

    @property
    def api_url(self) -> str:
        """Address of the Action API."""
        return f"http://127.0.0.1:{self.port}/w/api.php"

    @property
    def requests(self) -> Sequence[Mapping[str, str]]:
        """What has reached the server since `forget_requests`, in order."""
        log = self.root / "requests.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def forget_requests(self) -> None:
        """Empty the request log."""
        (self.root / "requests.jsonl").unlink(missing_ok=True)

    def dump(self, file: Path) -> Path:
        """MediaWiki's own dump of all pages at their last revision, written to a `.bz2` file."""
        script = self.source / "maintenance" / "dumpBackup.php"
        output = f"--output=bzip2:{file}"
        _php(script, _environment(self.root, self.source), "--current", "--quiet", output)
        return file

    @contextmanager
    def fault(self, **fault: Any) -> Iterator[None]:
        """Answer with a fault, `times` times or until the block ends.

        `status`, `headers` and `body` stand in for the answer; `delay_ms` holds it up; `lag_s` is
        the lag a `maxlag` is held against; `api_error` is the message key of an API error;
        `stock_search` takes the ranking away.
        """
        path = self.root / "fault.json"
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(fault))
        aside.replace(path)
        try:
            yield
        finally:
            path.unlink()


@contextmanager
def running_wiki(root: Path, snapshot: Path, cache: Path) -> Iterator[LocalWiki]:
    """Serve a wiki filled with a snapshot's pages from the folder `root`, which it creates.

    The package and the filled wiki are kept in `cache`. Raises WikiUnavailable where PHP or the
    package cannot be had.
    """
    _require_php()
    cache = cache.resolve()
    source = _unpacked_package(cache)
    shutil.copytree(_filled_wiki(cache, source, snapshot), root)
    wiki = LocalWiki(root, _free_port(), source)
    with _served(wiki, _environment(root, source)):
        yield wiki


def _environment(root: Path, source: Path) -> Mapping[str, str]:
    return {
        **os.environ,
        "WIKI_ROOT": str(root),
        "WIKI_CODE": str(_WIKI),
        "WIKI_SOURCE": str(source),
        "MW_CONFIG_FILE": str(root / "LocalSettings.php"),
        "PHP_CLI_SERVER_WORKERS": str(_WORKERS),
    }


def _require_php() -> None:
    if shutil.which("php") is None:
        raise WikiUnavailable("php is not installed: run ops/setup/debian.sh as root on Debian")
    modules = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True).stdout
    if missing := _PHP_MODULES - set(modules.splitlines()):
        raise WikiUnavailable(
            f"PHP lacks {', '.join(sorted(missing))}: run ops/setup/debian.sh as root on Debian"
        )


def _unpacked_package(cache: Path) -> Path:
    """The package's files. They are unpacked, not installed: as a package MediaWiki brings Apache."""
    unpacked = cache / "unpacked"
    source = unpacked / "usr" / "share" / "mediawiki"
    if source.exists():
        return source
    if shutil.which("apt-get") is None:
        raise WikiUnavailable("MediaWiki is taken from Debian's packages: apt-get was not found")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        aside = Path(folder)
        download = ["apt-get", "download", "-qq", *_PACKAGES]
        result = subprocess.run(download, cwd=aside, capture_output=True, text=True, check=False)
        if result.returncode:
            raise WikiUnavailable(
                f"apt-get could not download {' and '.join(_PACKAGES)} ({result.stderr.strip()}): "
                "run apt-get update as root on Debian"
            )
        for package in aside.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(package), str(aside / "unpacked")], check=True)
        files = aside / source.relative_to(cache)
        for link in ("LocalSettings.php", "config", "images", "extensions"):
            (files / link).unlink()  # they lead to places that only an installed package has
        (files / "images").mkdir()
        (files / "extensions").symlink_to("extensions-core")
        _move(aside / "unpacked", unpacked)
    return source


def _filled_wiki(cache: Path, source: Path, snapshot: Path) -> Path:
    """A wiki's folder, built once for each content of what it is made of."""
    made_of = [snapshot, Path(__file__), *sorted(_WIKI.iterdir())]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in made_of)).hexdigest()
    filled = cache / f"filled-{digest[:16]}"
    if not filled.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            aside = Path(folder) / "filled"
            env = _environment(aside, source)
            _install(aside, source, env)
            _import_pages(aside, snapshot, source, env)
            _move(aside, filled)
    return filled


def _move(aside: Path, target: Path) -> None:
    if not target.exists():  # another test run may have been faster
        aside.rename(target)


def _install(root: Path, source: Path, env: Mapping[str, str]) -> None:
    (root / "cache").mkdir(parents=True)
    options = {
        "dbtype": "sqlite",
        "dbpath": str(root / "database"),
        "dbname": "wiki",
        "server": "http://127.0.0.1",
        "scriptpath": "/w",
        "confpath": str(root),
        "pass": "only-for-tests",
        "extensions": "TextExtracts",
        "skins": "Vector",
    }
    flags = [f"--{name}={value}" for name, value in options.items()]
    _php(source / "maintenance" / "install.php", env, "--quiet", *flags, "Encyclopedia", "Admin")
    with (root / "LocalSettings.php").open("a") as settings:
        settings.write("\nrequire getenv( 'WIKI_CODE' ) . '/LocalSettings.extra.php';\n")
    for path in (root / "database").glob("*.sqlite"):
        database = sqlite3.connect(path)
        database.execute("PRAGMA journal_mode=WAL")  # so that readers do not wait for a writer
        database.close()


def _import_pages(root: Path, snapshot: Path, source: Path, env: Mapping[str, str]) -> None:
    rows = [json.loads(line) for line in snapshot.read_text(encoding="utf-8").splitlines()]
    dump = root / "pages.xml"
    dump.write_text(_export(_wikitexts(rows)), encoding="utf-8")
    _php(source / "maintenance" / "importDump.php", env, "--quiet", str(dump))
    _php(source / "maintenance" / "rebuildtextindex.php", env)


def _wikitexts(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """Wikitext by title; a page wins over a redirect of the same title."""
    titles = {row["title"] for row in rows}
    redirects = {
        _title(redirect): f"#REDIRECT [[{row['title']}]]"
        for row in rows
        for redirect in row["redirects"]
    }
    pages = {
        _title(row["title"]): _linked(row["text"], titles) if row["disambiguation"] else row["text"]
        for row in rows
    }
    return redirects | pages


def _title(title: str) -> str:
    """MediaWiki's form of a title: titles that differ in their first letter's case are one."""
    return title[0].upper() + title[1:]


def _linked(text: str, titles: Set[str]) -> str:
    """A disambiguation page: its first line, then a list of `Title, description`, titles linked."""
    first, *lines = text.splitlines()
    items = []
    for line in lines:
        starts = [line[: comma.start()] for comma in re.finditer(", ", line)]
        title = next(start for start in reversed(starts) if start in titles)
        items.append(f"* [[{title}]]{line.removeprefix(title)}")
    return "\n".join([first, *items, "__DISAMBIG__"])


def _export(wikitexts: Mapping[str, str]) -> str:
    """MediaWiki's XML export format."""
    pages = "".join(
        f"<page><title>{escape(title)}</title><ns>0</ns><revision>"
        "<timestamp>2026-01-01T00:00:00Z</timestamp><contributor><ip>127.0.0.1</ip></contributor>"
        "<model>wikitext</model><format>text/x-wiki</format>"
        f'<text xml:space="preserve">{escape(text)}</text></revision></page>\n'
        for title, text in wikitexts.items()
    )
    schema = "http://www.mediawiki.org/xml/export-0.11/"
    return f'<mediawiki xmlns="{schema}" version="0.11" xml:lang="en">\n{pages}</mediawiki>\n'


@contextmanager
def _served(wiki: LocalWiki, env: Mapping[str, str]) -> Iterator[None]:
    log = wiki.root / "server.log"
    settings = ["zlib.output_compression=1", "display_errors=0", "log_errors=1"]
    command = ["php", *(f"-d{setting}" for setting in settings)]
    command += ["-S", f"127.0.0.1:{wiki.port}", str(_WIKI / "router.php")]
    with log.open("wb") as output:
        # a session of its own: the workers are forks that outlive their parent, so the group is ended
        server = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_until_up(wiki, server)
        wiki.forget_requests()
        yield
    finally:
        _end_group(server)


def _wait_until_up(wiki: LocalWiki, server: "subprocess.Popen[bytes]") -> None:
    request = urllib.request.Request(f"{wiki.api_url}?action=query&format=json", headers=_AGENT)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    give_up = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            with direct.open(request, timeout=_START_TIMEOUT_S):
                return
        except OSError as error:
            broken = isinstance(error, urllib.error.HTTPError) or server.poll() is not None
            if broken or time.monotonic() > give_up:
                log = (wiki.root / "server.log").read_text(errors="replace")
                raise RuntimeError(f"the wiki did not start; its log ends:\n{log[-2000:]}") from None
            time.sleep(0.05)


def _end_group(server: "subprocess.Popen[bytes]") -> None:
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _php(script: Path, env: Mapping[str, str], *arguments: str) -> None:
    result = subprocess.run(
        ["php", str(script), *arguments], env=env, capture_output=True, text=True, check=False
    )
    if result.returncode:
        raise RuntimeError(f"{script.name} failed:\n{(result.stdout + result.stderr)[-2000:]}")
