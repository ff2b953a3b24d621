"""Extracts the text of dump pages in processes of their own, so that no page can hold up the others.

A parser of wikitext takes quadratic time for some texts. Such a page costs its process, not the build.
"""

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context

from pebble import ProcessExpired, ProcessFuture, ProcessPool

from deployments.backends.dumps.dump_reader import DumpPage, Site
from deployments.backends.dumps.wikitext import (
    is_disambiguation,
    lead_text,
    page_text,
    redirect_target,
)
from deployments.settings import PageText

PAGE_CPU_SECONDS = 20
"""What one page may take; ordinary ones take milliseconds."""

_TASK_PAGES = 64
_TASK_CHARACTERS = 1_000_000
_TASKS_PER_WORKER = 3


@dataclass(frozen=True, slots=True)
class ExtractedPage:
    """What a snapshot takes of a page: its text, or the page it leads to, or why neither.

    All of these are None for a page outside the namespace of articles.
    """

    page: DumpPage
    text: str | None = None
    url: str | None = None
    is_disambiguation: bool = False
    redirect: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Pages that one process extracts together."""

    pages: list[DumpPage]
    site: Site
    page_text: PageText
    page_cpu_seconds: float


_Future = ProcessFuture[list[ExtractedPage]]


def extract_pages(
    pages: Iterable[tuple[Site, DumpPage]],
    page_text: PageText,
    page_cpu_seconds: float = PAGE_CPU_SECONDS,
) -> Iterator[ExtractedPage]:
    """Every page extracted, in order, with as many processes as this one may use CPUs.

    A page that takes more CPU time than that has a fault.
    """
    workers = len(os.sched_getaffinity(0))
    pool = ProcessPool(max_workers=workers, context=get_context("spawn"))
    waiting: deque[tuple[Task, _Future]] = deque()
    try:
        for task in _tasks(pages, page_text, page_cpu_seconds):
            waiting.append((task, pool.schedule(extract_task, [task])))
            if len(waiting) > workers * _TASKS_PER_WORKER:
                yield from _result(pool, *waiting.popleft())
        while waiting:
            yield from _result(pool, *waiting.popleft())
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


def extract_task(task: Task) -> list[ExtractedPage]:
    """Extract the pages of a task; the process ends when one of them takes too much CPU time."""
    extracted = []
    for page in task.pages:
        # nobody handles this timer's signal, so it ends the process, also inside the parser's C code
        signal.setitimer(signal.ITIMER_VIRTUAL, task.page_cpu_seconds)
        extracted.append(extract_page(page, task.site, task.page_text))
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return [_without_wikitext(page) for page in extracted]


def extract_page(page: DumpPage, site: Site, page_text_kind: PageText) -> ExtractedPage:
    """What a snapshot takes of one page."""
    if fault := _fault(page):
        return ExtractedPage(page, fault=fault)
    if page.namespace != "0":
        return ExtractedPage(page)
    if target := page.redirect or redirect_target(page.text):
        return ExtractedPage(page, redirect=target)
    if page.model != "wikitext":
        return ExtractedPage(page, fault=f"its content is {page.model}, not wikitext")
    extract = lead_text if page_text_kind is PageText.LEAD else page_text
    try:
        text = extract(page.text, site.hidden_prefixes)
    except RecursionError:
        return ExtractedPage(page, fault="its wikitext is nested too deep")
    if not text:
        return ExtractedPage(page, fault="it has no text outside templates, tables and files")
    return ExtractedPage(page, text, site.url(page.title), is_disambiguation(page.text))


def _fault(page: DumpPage) -> str | None:
    if page.fault:
        return page.fault
    if not page.title.strip():
        return "it has no title"
    if not page.namespace.removeprefix("-").isdecimal():
        return "it has no namespace: the dump is older than MediaWiki 1.20"
    if page.namespace == "0" and not page.revision.isdecimal():
        return "it has no revision"
    return None


def _without_wikitext(extracted: ExtractedPage) -> ExtractedPage:
    extracted.page.text = ""
    return extracted


def _tasks(
    pages: Iterable[tuple[Site, DumpPage]], page_text: PageText, page_cpu_seconds: float
) -> Iterator[Task]:
    """Pages in tasks of bounded size; those of one dump are of one site."""
    task: list[DumpPage] = []
    characters, site = 0, Site()
    for site, page in pages:
        task.append(page)
        characters += len(page.text)
        if len(task) == _TASK_PAGES or characters > _TASK_CHARACTERS:
            yield Task(task, site, page_text, page_cpu_seconds)
            task, characters = [], 0
    if task:
        yield Task(task, site, page_text, page_cpu_seconds)


def _result(pool: ProcessPool, task: Task, future: _Future) -> Iterator[ExtractedPage]:
    try:
        yield from future.result()
    except ProcessExpired:
        if len(task.pages) > 1:
            for page in task.pages:
                alone = replace(task, pages=[page])
                yield from _result(pool, alone, pool.schedule(extract_task, [alone]))
        else:
            limit = f"{task.page_cpu_seconds:g} s of CPU time"
            fault = f"its wikitext could not be parsed within {limit}"
            yield ExtractedPage(task.pages[0], fault=fault)
