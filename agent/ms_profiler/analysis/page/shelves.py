"""Collect the pages that `ms-profiler view` serves: an index, a page for each result, and one for all ranks of a
job."""

import os
from typing import Any

from ms_profiler.analysis.driver import engine, inputs
from ms_profiler.analysis.driver.ledger import read_summary
from ms_profiler.analysis.page import file as page_file, launch
from ms_profiler.analysis.page.server import Shelf
from ms_profiler.store import layout


def shelf(paths: list[str], folder: str) -> Shelf:
    """Return the pages that the server offers for some results.

    Args:
        paths: the paths of the results, from `engine.find`.
        folder: a directory for the files of the pages, which only this server uses.
    """
    jobs = {f"job-{number}": ranks for number, ranks in enumerate(launch.jobs(paths)) if len(ranks) > 1}
    single = {f"run-{number}": [path] for number, path in enumerate(paths)}
    # a job of several ranks also gets a page of all ranks; a single result needs no index
    pages = jobs if list(jobs.values()) == [paths] and len(paths) == 1 else {**jobs, **single}

    def page(title: str) -> str:
        return page_file.write(pages[title], os.path.join(folder, f"{title}.html"))

    def of_page(title: str) -> str | None:
        return timeline(pages[title][0], os.path.join(folder, title)) if title in single else None

    index = [_job_row(title, ranks) for title, ranks in jobs.items()]
    index += [_row(title, path) for title, (path,) in single.items()]
    return Shelf(index if len(pages) > 1 else [], list(pages), page, of_page)


def timeline(path: str, folder: str) -> str | None:
    """Return the result's file for Perfetto. If the file is missing, analyse the result first.

    Args:
        path: the path of the result, from `engine.find`.
        folder: the folder for the files of the analysis, if the result has none.
    """
    kind = inputs.kind(path)
    if kind == inputs.Kind.TRACE:
        return path
    names = (layout.PERFETTO_TRACE, layout.TRACE_VIEW)
    if kind == inputs.Kind.STORE and not os.path.exists(os.path.join(layout.output_dir(path), names[0])):
        (done,) = engine.analyse([path], output=folder)
        path = done.directory
    files = [os.path.join(layout.output_dir(path), name) for name in names]
    return next((file for file in files if os.path.isfile(file)), None)


def _row(title: str, path: str) -> dict[str, Any]:
    summary = read_summary(inputs.result(path)) or {}
    steps = summary.get("steps") or {}
    if steps.get("source") == "whole_run":
        steps = {}
    return {
        "page": title,
        "name": path,
        "rank": summary.get("rank"),
        "world_size": summary.get("world_size"),
        "started": (summary.get("run") or {}).get("started"),
        "duration_s": (summary.get("run") or {}).get("duration_s"),
        "steps": steps.get("count"),
        "median_ms": (steps.get("steady") or {}).get("median_ms"),
        "verdict": summary.get("verdict"),
    }


def _job_row(title: str, ranks: list[str]) -> dict[str, Any]:
    row = _row(title, ranks[0])
    return {**row, "name": os.path.dirname(os.path.abspath(ranks[0])), "rank": None, "ranks": len(ranks)}
