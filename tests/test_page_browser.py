"""report.html works in Chromium, with every view, key, language and paper, and shows the figures of summary.json.

`make test-browser` runs all of it, with real jobs, and takes the pictures of the pages.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import PROGRAMS, ROOT, environment, launcher
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.page import server, shelves
from ms_profiler.cli import main
from ms_profiler.store.format import Category
from store_builder import MS, folder_of, training

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install playwright)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium (Debian: apt-get install chromium)")

#: an operator's name that would run code in a page that reads names as markup
HOSTILE = "<img src=x onerror=document.body.dataset.harmed=1></script><script>document.body.dataset.harmed=1</script>"
NPU, GPU = os.environ.get("MS_PROFILER_TEST_DATA"), os.environ.get("MS_PROFILER_TEST_GPU_TRACES")
#: folder for pictures of the pages
PICTURES = os.environ.get("MS_PROFILER_PICTURES")
SHAPES_MOST = 20_000
#: address that the page requests only when a user presses the button
PERFETTO = "https://ui.perfetto.dev"


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium, tmp_path):
    """Return a function that opens a page; a page that requests another address or has an error fails the test."""
    with contextlib.ExitStack() as stack:
        errors, requested = [], []

        def open_(file, **options):
            context = chromium.new_context(viewport={"width": 1280, "height": 800}, **{"locale": "en-US", **options})
            stack.callback(context.close)
            context.on("request", lambda request: requested.append(request.url))
            page = context.new_page()
            page.on("pageerror", lambda error: errors.append(error))
            page.goto(file.as_uri() if isinstance(file, Path) else file)
            page.wait_for_selector('[data-ready="true"]')
            return page

        yield open_
    assert not errors
    pressed = [url for url in requested if url.startswith(PERFETTO)]
    assert len(pressed) <= 1
    assert all(url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:", f"{PERFETTO}/")) for url in requested)


def report(folder, *paths):
    file = folder / "page.html"
    assert main(["report", *map(str, paths), "--output", str(file)]) == 0
    return file


def summary_of(path):
    return json.loads((Path(path) / "summary.json").read_text())


def text(page, section):
    return page.inner_text(f"#{section}")


def times(ms):
    """Return a time in milliseconds as the page writes it."""
    for limit, factor, digits, unit in ((1000, 1e-3, 3, "s"), (1, 1, 3, "ms"), (0.001, 1e3, 1, "us")):
        if ms >= limit:
            return f"{ms * factor:.{digits}f} {unit}"
    return f"{round(ms * 1e6)} ns"


def assert_figures(page, summary):
    """Check that the text of a page has the figures of a summary."""
    overview = text(page, "overview")
    assert summary["verdict"] in overview
    steady = summary["steps"]["steady"]
    for value in (steady["median_ms"], steady["p95_ms"], summary["steps"]["first_ms"]):
        if value is not None:
            assert times(value) in overview
    assert f"{summary['run']['duration_s']:.2f} s" in overview
    for item in summary["advice"]:
        assert item["evidence"] in overview and item["action"] in overview
    for name, phase in summary["phases"].items():
        if phase["steady_share"]:
            shown = f"{name} {phase['steady_share'] * 100:.1f} %, {times(phase['steady_per_step_ms'])}"
            assert shown in overview.replace("\n", " "), shown
    for name, share in ((summary["bounds"] or {}).get("shares") or {}).items():
        assert not share or f"{name} {share * 100:.1f} %" in overview.replace("\n", " "), name
    for part in ((summary["whole_run"] or [{"parts": []}])[0])["parts"]:
        assert not part["share"] or part["part"] in overview
    tree = summary["module_tree"]
    if tree:
        rows = page.locator("#modules table.tree tbody tr").all_inner_texts()
        first = tree["rows"][0]
        assert first["module"] in rows[0] and times(first["total_ms"]) in rows[0]
        assert f"{first['share'] * 100:.1f} %" in rows[0]
    for item in summary["not_collected"]:
        assert item["what"] in text(page, "missing")
    kernels = summary["kernels"]
    assert_sums(page, "kernels", kernels["by_name"] if kernels else [])
    assert_sums(page, "operators", [] if kernels and kernels["count"] else summary["top_operators"])


def assert_sums(page, view, rows):
    """Check for each name that the rows of a table sum up to the summary's figure; the search finds the rows.

    Args:
        page: the page.
        view: the view with the table.
        rows: rows of the summary with `name`, `count`, `total_ms` and, in some tables, `self_ms`.
    """
    if page.locator(f"#{view} input[type=search]").count() == 0:
        return
    more = page.locator(f"#{view} .grid > button")
    while more.is_visible():
        more.click()
    titles = page.locator(f"#{view} th").all_inner_texts()
    everything = {name.lower() for name in page.locator(f"#{view} tbody td.name:first-child").all_inner_texts()}
    for row in [row for row in rows if not row.get("scaled")][:6]:
        if sum(row["name"].lower() in name for name in everything) != 1:
            continue
        page.fill(f"#{view} input[type=search]", row["name"])
        (last,) = page.locator(f"#{view} tfoot tr").all() or page.locator(f"#{view} tbody tr").all()
        figures = dict(zip(titles, last.locator("td").all_inner_texts(), strict=True))
        assert figures["count"].replace(",", "") == str(row["count"]), row["name"]
        for key in ("total", "self"):
            if key in figures and f"{key}_ms" in row:
                assert figures[key] == times(row[f"{key}_ms"]), (row["name"], key)
    page.fill(f"#{view} input[type=search]", "")


def shapes(page):
    return int(page.get_attribute("#timeline canvas", "data-shapes"))


def press(page, *keys):
    page.focus("#timeline canvas")
    for key in keys:
        page.keyboard.press(key)
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def picture(page, name, section=None):
    """Take a picture of the page, if MS_PROFILER_PICTURES names a folder."""
    if PICTURES:
        if section:
            page.evaluate(f"document.getElementById('{section}').scrollIntoView({{behavior: 'instant'}})")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Return the directory of an analysed run in which one name is markup."""
    store = training(tmp_path_factory.mktemp("report"))
    store.processes[0].thread(2, "worker").span(HOSTILE, Category.OP, 60 * MS, 61 * MS)
    path = store.write()
    engine.analyse([path])
    return path


@pytest.fixture(scope="module")
def file(result, tmp_path_factory):
    return report(tmp_path_factory.mktemp("page"), result)


def test_it_shows_the_figures_of_the_summary_and_names_are_no_markup(file, result, opened):
    page = opened(file)
    assert_figures(page, summary_of(folder_of(result).parent))
    assert not page.evaluate("document.body.dataset.harmed")
    assert HOSTILE in page.locator("#operators td.name").all_inner_texts()
    assert 0 < shapes(page) <= SHAPES_MOST


def test_tables_are_sorted_searched_and_filtered(file, opened):
    page = opened(file)
    rows = page.locator("#operators tbody tr")
    names = lambda: [row.split("\t")[0] for row in rows.all_inner_texts()]  # noqa: E731
    assert names() == ["MatMul", HOSTILE]
    page.focus('#operators th:has-text("count")')
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert page.get_attribute('#operators th:has-text("count")', "aria-sort") == "ascending"
    assert names() == [HOSTILE, "MatMul"]
    page.select_option('#operators select[aria-label="phase"]', "backward")
    assert names() == ["MatMul"]


def test_the_timeline_answers_to_keys_and_to_a_step(file, opened):
    page = opened(file)
    all_of_it = shapes(page)
    press(page, "w", "w", "w", "w", "+")
    zoomed = shapes(page)
    press(page, "f")
    assert zoomed < all_of_it == shapes(page)
    press(page, "n", "n")
    detail = page.inner_text("#timeline .detail")
    press(page, "n")
    assert detail.strip() and page.inner_text("#timeline .detail") != detail
    page.click("#steps .legend button >> nth=0")
    press(page)
    assert shapes(page) < all_of_it


def test_two_languages_dark_and_paper(file, opened):
    page = opened(file, locale="zh-CN", color_scheme="dark")
    assert page.get_attribute("html", "lang") == "zh-Hans"
    assert page.locator("h2").all_inner_texts()[:2] == ["概览", "训练步"]
    assert page.evaluate("document.body.classList.contains('dark')")
    page.click("#language")
    page.wait_for_selector('[data-language="en"]')
    assert page.locator("h2").all_inner_texts()[:2] == ["Overview", "Steps"]
    page.emulate_media(media="print")
    assert not page.is_visible("nav") and not page.is_visible("#dark") and page.is_visible(".verdict")


@pytest.mark.slow
def test_from_a_disk_the_button_names_the_file(file, result, opened):
    page = opened(file)
    page.click("text=Open in Perfetto")
    assert f"{folder_of(result).parent.name}/ASCEND_PROFILER_OUTPUT/trace.pftrace" in page.inner_text("dialog")


@pytest.mark.slow
def test_two_runs_are_compared(tmp_path, result, opened):
    page = opened(report(tmp_path, result, training(tmp_path / "other", steps=12).write()))
    assert "Compare" in page.locator("h2").all_inner_texts()
    assert "→" in text(page, "compare")


@contextlib.contextmanager
def served(paths, folder):
    with server.Server(shelves.shelf(engine.find(list(map(str, paths))), str(folder))) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.mark.slow
def test_served_it_opens_the_timeline_in_perfetto(tmp_path, result, opened):
    parent = tmp_path / "data"
    ranks = [
        training(parent, name=f"host_{rank}_20260101000000123_ascend_ms", rank=rank, world_size=2, job="one").write()
        for rank in range(2)
    ]
    engine.analyse(ranks)
    with served([parent], tmp_path) as serving:
        page = opened(serving.url)
        assert page.locator("tbody tr").count() == 3
        page.click("tbody tr:nth-child(2) a")
        page.wait_for_selector('[data-run="0"]')
        # the page that replaces https://ui.perfetto.dev, which a test does not open
        stub = """<script>onmessage = (event) => {
            if (event.data === "PING") event.source.postMessage("PONG", event.origin);
            else document.title = `${event.data.perfetto.fileName} ${event.data.perfetto.buffer.byteLength}`;
        }</script>"""
        page.context.route(f"{PERFETTO}/**", lambda route: route.fulfill(body=stub, content_type="text/html"))
        with page.context.expect_page() as window:
            page.click("text=Open in Perfetto")
        size = (ranks[0] / "ASCEND_PROFILER_OUTPUT" / "trace.pftrace").stat().st_size
        window.value.wait_for_function(f"document.title === 'trace.pftrace {size}'")


def trained(program, folder, *args, **options):
    run = launcher(folder)(program, *args, options=options)
    assert run.code == 0, run.err
    return run.result


VIEWS = ["overview", "steps", "modules", "operators", "kernels", "timeline", "communication", "memory", "missing"]


def assert_all_views(page):
    """Check that every view exists and draws no more than its limit, and that the page fits the window's width."""
    found = page.locator("section").evaluate_all("all => all.map(each => each.id)")
    assert set(VIEWS) <= set(found)
    assert 0 < shapes(page) <= SHAPES_MOST
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_a_real_mindspore_run(tmp_path, opened):
    path = trained(ROOT / "examples" / "train_convnet.py", tmp_path, with_stack="sample")
    page = opened(report(tmp_path, path))
    assert_figures(page, summary_of(path))
    assert_all_views(page)
    assert int(page.get_attribute("#stacks .blocks", "data-shapes")) > 20
    drawn = int(page.get_attribute("#stacks .blocks", "data-shapes"))
    # a block that is wide enough for the mouse, and narrower than half of the graph
    widths = page.locator("#stacks .blocks button").evaluate_all("all => all.map(each => each.offsetWidth)")
    narrow = next(number for number, width in enumerate(widths) if 20 < width < widths[0] / 2)
    clicked = page.get_attribute(f"#stacks .blocks button >> nth={narrow}", "aria-label")
    page.click(f"#stacks .blocks button >> nth={narrow}")
    zoomed = page.locator("#stacks .blocks button").evaluate_all(
        "all => all.map(each => [each.ariaLabel, each.offsetWidth])"
    )
    assert dict(zoomed)[clicked] > 0.9 * widths[0]
    page.keyboard.press("Escape")
    assert int(page.get_attribute("#stacks .blocks", "data-shapes")) == drawn
    assert int(page.get_attribute("#timeline canvas", "data-curves")) > 0
    picture(page, "report", "overview")
    picture(page, "report-stacks", "stacks")


@pytest.mark.slow
def test_a_real_pytorch_run(tmp_path, opened):
    path = trained(PROGRAMS / "torch_networks.py", tmp_path, tmp_path / "truth")
    page = opened(report(tmp_path, path))
    assert_figures(page, summary_of(path))
    assert_all_views(page)
    assert page.locator('#operators select[aria-label="module"] option').count() > 2


@pytest.mark.slow
def test_two_real_ranks_side_by_side(tmp_path, opened):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {"start": True, "output_path": str(tmp_path / "data")}
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, PROGRAMS / "page_ranks.py"],
            env=environment(options, RANK=str(rank), LOCAL_RANK=str(rank), **common),
            cwd=tmp_path,
        )
        for rank in range(2)
    ]
    assert [rank.wait(300) for rank in ranks] == [0, 0]
    page = opened(report(tmp_path, tmp_path / "data"))
    states = page.locator("#ranks tr[data-rank]").evaluate_all(
        "rows => rows.map(row => [row.dataset.rank, row.dataset.state])"
    )
    assert states == [["0", "waits"], ["1", "late"]]
    assert_all_views(page)
    assert "of the communication is beside computing" in text(page, "communication")
    picture(page, "report-ranks", "ranks")


@pytest.mark.slow
@pytest.mark.skipif(not NPU, reason="needs MS_PROFILER_TEST_DATA, results of NPUs")
def test_two_ranks_of_real_npus(tmp_path, opened):
    page = opened(report(tmp_path, Path(NPU) / "level1"))
    assert_all_views(page)
    assert page.locator("#ranks tr[data-rank]").count() == 2
    assert int(page.get_attribute("#timeline canvas", "data-flows")) > 0
    (folder,) = engine.analyse([Path(NPU) / "level1" / "rank0_ascend_pt"], output=str(tmp_path))
    assert_figures(page, summary_of(folder.directory))


@pytest.mark.slow
@pytest.mark.skipif(not GPU, reason="needs MS_PROFILER_TEST_GPU_TRACES, traces of GPUs")
def test_a_real_gpu_trace(tmp_path, opened):
    trace = Path(GPU) / "trace_diff_test.json.gz"
    page = opened(report(tmp_path, trace))
    assert_all_views(page)
    (folder,) = engine.analyse([trace], output=str(tmp_path))
    assert_figures(page, summary_of(folder.directory))
    page.select_option('#kernels select[aria-label="stream"]', "7")
    titles = page.locator("#kernels th").all_inner_texts()
    rows = page.locator("#kernels tbody tr").all_inner_texts()
    assert {row.split("\t")[titles.index("stream")] for row in rows} == {"7"}
    assert int(page.get_attribute("#timeline canvas", "data-curves")) > 2


def test_pictures_of_the_readme_are_there():
    for name in re.findall(r"\((docs/[\w-]+\.png)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / name).stat().st_size < 600_000
