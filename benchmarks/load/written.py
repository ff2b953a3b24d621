"""A report written down: Markdown, a page of HTML that needs nothing beside it, JSON, the records."""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from benchmarks.load.outcomes import Record
from benchmarks.load.report import Report, sections, warnings
from benchmarks.report import Section, parts_of, write_files

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
 color: #1b1b1b; background: #fff }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0 }}
th, td {{ padding: .15rem .8rem .15rem 0; text-align: left; border-bottom: 1px solid #ddd }}
.verdict {{ font-size: 1.25rem }} .bad {{ color: #a40000 }} .warning {{ border-left: 4px solid #d98a00;
 padding-left: .8rem }} .note {{ color: #555; max-width: 46rem }} img {{ max-width: 100% }}
</style></head><body>
{body}
</body></html>
"""


def write(folder: Path, report: Report, records: Sequence[Record]) -> list[Path]:
    """`report.json`, `report.md`, `report.html`, `records.jsonl` in a folder, each whole or not there.

    Raises OSError.
    """
    from benchmarks.load.plots import plots  # matplotlib takes half a second

    texts = {
        "report.json": json.dumps(report.as_json(), indent=1) + "\n",
        "report.md": markdown(report) + "\n",
        "report.html": html(report, plots(report, records)),
    }
    if records:
        texts["records.jsonl"] = "".join(_line(record) for record in records)
    return write_files(folder, texts)


def markdown(report: Report) -> str:
    """The report as Markdown."""
    parts = [f"## Load: {report.verdict.sentence}"]
    parts += [f"> {warning}" for warning in warnings(report)]
    parts += parts_of(sections(report))
    return "\n\n".join(parts)


def html(report: Report, drawn: Mapping[str, str]) -> str:
    """The report as one page, with its plots inside."""
    colour = "bad" if report.verdict.exit_code else ""
    parts = [
        "<h1>Load</h1>",
        f'<p class="verdict {colour}">{escape(report.verdict.sentence)}</p>',
        *(f'<p class="warning">{escape(warning)}</p>' for warning in warnings(report)),
        *(_figure(title, svg) for title, svg in drawn.items()),
        *(_table(section) for section in sections(report)),
    ]
    return _PAGE.format(title=escape(f"Load on {report.url}"), body="\n".join(parts))


def _figure(title: str, svg: str) -> str:
    # an image cannot run anything, and the plots' ids cannot meet each other
    encoded = base64.b64encode(svg.encode()).decode()
    source = f"data:image/svg+xml;base64,{encoded}"
    return f'<h2>{escape(title)}</h2><img alt="{escape(title)}" src="{source}">'


def _table(section: Section) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in section.header)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in section.rows
    )
    note = f'<p class="note">{escape(section.note)}</p>' if section.note else ""
    return f"<h2>{escape(section.title)}</h2><table><tr>{head}</tr>{rows}</table>{note}"


def _line(record: Record) -> str:
    fields = record._asdict() | {"gaps_s": list(record.gaps_s)}
    return json.dumps(fields) + "\n"
