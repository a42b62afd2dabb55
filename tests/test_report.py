"""A browser shows the figures of summary.json in report.html, and the page makes no request."""

import base64
import hashlib
import itertools
import json
import os
import re
import zlib
from importlib import resources

import polars as pl
import pytest
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.page import curves, document, file
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from store_builder import MS, folder_of, training

#: an operator's name that would run code in a page that reads names as markup
HOSTILE = "<img src=x onerror=document.body.dataset.harmed=1></script><script>document.body.dataset.harmed=1</script>"


def page_of(path, *more, output=None):
    """Run `ms-profiler report` on results, and return the text of the page."""
    options = [] if output is None else ["--output", str(output)]
    assert main(["report", str(path), *map(str, more), *options]) == 0
    return (output or folder_of(path).parent / "report.html").read_text(encoding="utf-8")


def inflated(text):
    return zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)


def held_in(page):
    """Return the data that a page contains, as JSON values."""
    return json.loads(inflated(re.search(r'<script id="run" type="text/plain">([^<]*)<', page)[1]))


def runs_of(page):
    return held_in(page)["runs"]


def values(page, packed):
    """Unpack a column of a page, and return its values."""
    count = packed["count"]
    if not packed["planes"]:
        return [0] * count
    raw = inflated(re.search(rf'<script id="{packed["data"]}" type="text/plain">([^<]*)<', page)[1])
    planes = [raw[plane * count : (plane + 1) * count] for plane in range(packed["planes"])]
    found = [int.from_bytes(bytes(parts), "little") for parts in zip(*planes, strict=True)]
    for row, high in packed["wide"]:
        found[row] += high << 32
    return found


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Return the directory of an analysed run in which one name is markup and one event takes two minutes."""
    store = training(tmp_path_factory.mktemp("report"))
    thread = store.processes[0].thread(2, "worker")
    thread.span(HOSTILE, Category.OP, 60 * MS, 61 * MS)
    thread.span("after the steps", Category.OP, 1000 * MS, 121_000 * MS)
    store.processes[0].info.ended_ns += 121_000 * MS
    path = store.write()
    engine.analyse([path])
    return path


@pytest.fixture(scope="module")
def page(result):
    return page_of(result)


def test_the_page_holds_the_summary_and_the_tables(result, page):
    (run,) = runs_of(page)
    assert run["summary"] == json.loads((folder_of(result).parent / "summary.json").read_text())
    assert run["steps"]["columns"]["number"] == list(range(20))
    assert run["phases"]["columns"]["backward"][1:] == [4 * MS] * 19
    rows = run["operators"]["columns"]
    assert set(rows["name"]) == {"MatMul", HOSTILE, "after the steps"}
    matmul = rows["name"].index("MatMul")
    assert (rows["phase"][matmul], rows["module"][matmul], rows["total"][matmul]) == ("backward", None, 20 * MS)


def test_events_are_packed_without_loss(page):
    (run,) = runs_of(page)
    line = run["timeline"]
    packed = {name: values(page, column) for name, column in line["packed"].items()}
    assert max(packed["dur"]) == 120_000 * MS > 1 << 32
    columns, events = zip(*(packed[key] for key in ("start", "dur", "kind")), strict=True), []
    for lane in line["lanes"]:
        start = 0
        for step, dur, kind in itertools.islice(columns, lane["count"]):
            start += step
            events.append((line["names"][kind], lane["kind"], start, dur))
    matmul = [(start, dur) for name, kind, start, dur in events if name == "MatMul" and kind == 1]
    assert matmul == [((156 + number * 10) * MS, MS) for number in range(20)]
    assert len(events) == line["count"]


def test_a_curve_that_is_thinned_keeps_its_peaks(monkeypatch):
    monkeypatch.setattr(curves, "VALUES_MOST", 4)
    curve = pl.DataFrame({"time": range(12), "value": [1, 9, 2, 3, 4, 3, 0, 0, 0, 5, 6, 70]})
    assert curves.thinned(curve).rows() == [(1, 9), (4, 4), (6, 0), (11, 70)]


def test_of_a_run_with_too_many_events_the_slowest_steps_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "EVENTS_MOST", 60)
    (run,) = runs_of(page_of(training(tmp_path).write()))
    (note,) = run["timeline"]["notes"]
    assert run["timeline"]["count"] <= 60
    assert re.match(r"\d+ of \d+ events: those of the first and the slowest steps \(0, ", note)


def test_it_uses_no_network_and_is_small(page):
    code = re.sub(r"<script id=.*?</script>", "", page, flags=re.DOTALL)
    assert len(code) < 1 << 20
    # The page's policy forbids every request. Its only addresses are names of XML namespaces and of sources.
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert not re.findall(r'(?:src|href)\s*=\s*"https?:', code)
    assert HOSTILE not in page


def test_libraries_match_their_checksums():
    vendor = resources.files(document.__package__) / "static" / "vendor"
    listed = dict(reversed(line.split()) for line in (vendor / "SHA256SUMS").read_text().splitlines())
    there = {item.name for item in vendor.iterdir()} - {"SHA256SUMS"}
    assert there == set(listed)
    for name, digest in listed.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest


def test_two_runs_are_compared(tmp_path, result):
    other = training(tmp_path, steps=12).write()
    page = page_of(result, other, output=tmp_path / "both.html")
    assert [run["summary"]["steps"]["count"] for run in runs_of(page)] == [20, 12]
    causes = held_in(page)["differences"]["causes"]
    assert sum(each["change_ns"] for each in causes["contributors"]) == causes["change_ns"]


def test_an_analysis_writes_it_on_request_and_renews_it(tmp_path):
    path = training(tmp_path).write()
    page = folder_of(path).parent / "report.html"
    assert main(["analyse", str(path)]) == 0
    assert not page.exists()
    assert main(["analyse", "--export", "html", str(path)]) == 0
    assert runs_of(page.read_text())[0]["steps"]["count"] == 20
    assert main(["analyse", "--step-list", "3-7", str(path)]) == 0
    assert runs_of(page.read_text())[0]["steps"]["count"] == 5


def test_a_job_that_asks_for_it_gets_it_with_its_analysis(tmp_path):
    path = training(tmp_path, options={"report": True}).write()
    assert main(["analyse", str(path)]) == 0
    (run,) = runs_of((folder_of(path).parent / "report.html").read_text())
    assert run["summary"]["options"]["report"] is True


def test_several_results_are_refused_by_name(tmp_path, capsys):
    for name in ("host_1_20260101000000123_ascend_ms", "host_2_20260101000000123_ascend_ms"):
        training(tmp_path, name=name).write()
    assert main(["report", str(tmp_path)]) == 2
    assert "holds 2 results" in capsys.readouterr().err


def test_a_link_is_not_written_through(tmp_path, capsys):
    path = training(tmp_path).write()
    target = tmp_path / "somebody-elses"
    target.write_text("kept")
    os.symlink(target, folder_of(path).parent / "report.html")
    assert main(["report", str(path)]) != 0
    assert "symbolic link" in capsys.readouterr().err
    assert target.read_text() == "kept"
