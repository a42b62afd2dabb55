"""Measure the time to make the HTML report of a run of a million events, its size, and its speed in a browser.

The recording is that of `analysis.py`. The program compares the analysis that also makes the page (report.html) with
the analysis without the page. Both are the command that a user starts. Playwright opens the page in Chromium, which
reports tasks that block the page for more than 50 ms (https://www.w3.org/TR/longtasks-1/). For keys that zoom and move
the timeline, the program measures the time from the key to the drawn picture.

usage: report.py [MILLIONS OF EVENTS]
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import analysis

ROUNDS = 7
#: ns by which the times of events differ from step to step; equal steps would compress to a fiftieth of the size
SPREAD = 400
#: promised limits: longest task in ms, slowest key in ms, page size in bytes, shapes drawn at once, ratio of the times
LONGEST_TASK, LONGEST_KEY, LARGEST, SHAPES, DEAREST = 500, 200, 30_000_000, 20_000, 1.2
KEYS = ["w"] * 8 + ["d"] * 6 + ["a"] * 6 + ["s"] * 4 + ["f", "w", "w", "d", "d", "f"]
WATCH = """
window.tasks = [];
new PerformanceObserver(list => list.getEntries().forEach(each => window.tasks.push(each.duration)))
    .observe({ entryTypes: ["longtask"] });
"""
PRESSED = """key => new Promise(done => {
    const canvas = document.querySelector("#timeline canvas"), began = performance.now();
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    requestAnimationFrame(() => setTimeout(() => done([performance.now() - began, Number(canvas.dataset.shapes)])));
})"""


def command(*words: str) -> float:
    """Run one of our commands and return its duration in seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ms_profiler", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def browsed(page: Path) -> dict[str, Any]:
    """Open a page in Chromium; return the times to show it and to move in its timeline, and the most shapes drawn."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.add_init_script(WATCH)
        began = time.perf_counter()
        tab.goto(page.as_uri(), timeout=120_000)
        tab.wait_for_selector('[data-ready="true"]', timeout=120_000)
        ready = time.perf_counter() - began
        tab.wait_for_timeout(500)
        opening = tab.evaluate("window.tasks.splice(0)")
        pressed = [tab.evaluate(PRESSED, key) for key in KEYS]
        first = int(tab.evaluate("Number(document.querySelector('#timeline canvas').dataset.shapes)"))
        tab.wait_for_timeout(500)
        moving = tab.evaluate("window.tasks")
        browser.close()
    took = [each for each, _ in pressed]
    return {
        "ready": ready,
        "opening": max(opening, default=0),
        "moving": max(moving, default=0),
        "median": statistics.median(took),
        "slowest": max(took),
        "shapes": max(first, *(shapes for _, shapes in pressed)),
    }


def verdict(kept: bool) -> str:
    return "" if kept else "  <- more than promised"


def main() -> None:
    events = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as parent:
        folder = os.path.join(parent, "host_1_20260101000000123_ascend_ms")
        os.makedirs(folder)
        count = int(analysis.apart("generate", folder, str(events), str(SPREAD)))
        alone, together = [], []
        for _ in range(ROUNDS):
            for form, times in (([], alone), (["--export", "html"], together)):
                for name in ("ASCEND_PROFILER_OUTPUT", "report.html"):
                    path = os.path.join(folder, name)
                    shutil.rmtree(path) if os.path.isdir(path) else Path(path).unlink(missing_ok=True)
                times.append(command("analyse", *form, folder))
        ratio = statistics.median(a / b for a, b in zip(together, alone, strict=True))
        page = Path(folder, "report.html")
        size = page.stat().st_size
        print(f"{count:,} events: the analysis alone {statistics.median(alone):.2f} s")
        print(f"with the page x{ratio:.2f}, {statistics.median(together):.2f} s{verdict(ratio <= DEAREST)}")
        print(f"page {size / 1e6:.1f} MB{verdict(size <= LARGEST)}")
        seen = browsed(page)
        print(f"opened and drawn after {seen['ready']:.2f} s")
        print(f"longest task while it opens {seen['opening']:.0f} ms{verdict(seen['opening'] <= LONGEST_TASK)}")
        print(f"longest task while it moves {seen['moving']:.0f} ms{verdict(seen['moving'] <= LONGEST_TASK)}")
        kept = verdict(seen["slowest"] <= LONGEST_KEY)
        print(f"pan and zoom: median {seen['median']:.0f} ms, slowest {seen['slowest']:.0f} ms{kept}")
        print(f"shapes drawn at once {seen['shapes']:,}{verdict(seen['shapes'] <= SHAPES)}")


if __name__ == "__main__":
    main()
