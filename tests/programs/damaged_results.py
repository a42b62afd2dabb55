"""Read damaged copies of files, and print a line of JSON for each copy whose reading ends in a forbidden way.

Reading may end with a result or with one error of ms-profiler, within some seconds and with limited memory. usage:
damaged_results.py READER SEED FIRST COUNT SECONDS SOURCE...
"""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import reading_limits
from damage import damage
from ms_profiler import cli, options
from ms_profiler.analysis.driver import engine
from ms_profiler.errors import MsProfilerError, StoreError
from ms_profiler.gate import baseline, document, history, sides, text
from ms_profiler.gate.verdicts import Rules
from ms_profiler.job.control.dynamic_file import DynamicFile

#: bytes of address space that the process may use
MEMORY = 6 << 30


class OddError(Exception):
    """Say that a reader's answer contains a text that a user should not see."""


def result(path, number, source):
    """Analyse a damaged result or trace; fail if a warning has several lines."""
    done = engine.analyse([path], forms=["db"] if number % 5 == 0 else [])
    if any("\n" in each.warning for each in done):
        raise OddError(done[0].warning)


def baseline_file(path, number, source):
    """Compare the run of an undamaged baseline with a damaged baseline, and format the verdict."""
    run = baseline.read(str(source)).typical
    gated = sides.gate_stored(baseline.read(str(path)), [run] * 4, Rules())
    content = document.of(gated.decision, 0, gated.why())
    json.dumps(content, allow_nan=False)
    text.lines(content)


def history_file(path, number, source):
    """Find the changes in a damaged history."""
    if lines := history.read(str(path)):
        for change in history.changes(lines):
            json.dumps([change.metric, change.label, change.place, change.point.ratio, change.point.p], allow_nan=False)


def option_text(path, number, source):
    """Parse a damaged value of the variable; parsing must not raise, and its messages must be short lines."""
    content = path.read_bytes().decode("utf-8", "surrogateescape")
    parsed = options.parse(content)
    if odd := [line for line in parsed.messages if "\n" in line or len(line) > 1000]:
        raise OddError(odd[0])
    if parsed.options is not None:
        json.dumps(parsed.options.as_dict(), allow_nan=False)


def dynamic_file(path, number, source):
    """Read a damaged file of the option `dynamic`; the job expects either values or a ValueError."""
    try:
        DynamicFile(str(path), {}, 0).look()
    except ValueError as error:
        raise StoreError("It is refused.") from error


def command(*words):
    """Return a reader that runs a command of ms-profiler on the damaged copy."""

    def run(path, number, source):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main([words[0], str(path), *words[1:]])
        if code not in (0, 2) or (code == 2 and len(err.getvalue().splitlines()) != 1):
            raise OddError(f"exit code {code}: {err.getvalue()}")
        if "--json" in words and code == 0:
            json.loads(out.getvalue())
        if "\x1b" in out.getvalue() + err.getvalue():
            raise OddError("it commands the terminal")
        if code:
            raise StoreError("It is refused.")

    return run


READERS = {
    "result": result,
    "baseline": baseline_file,
    "history": history_file,
    "options": option_text,
    "dynamic": dynamic_file,
    "cluster": command("cluster", "--json", "--no-files", "--max-process-number=1"),
    "summary": command("summary"),
}


def keep(seed, number, source):
    """Make a damaged copy again and keep it in the directory $KEEP, for inspection."""
    kept = Path(os.environ["KEEP"]) / str(number)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    damage(random.Random(f"{seed} {number}"), source, kept / source.name)


def main(reader, seed, first, count, seconds, *names):
    """Read the damaged copies from number `first` on; allow `seconds` seconds for each of them."""
    sources = [Path(name) for name in names]
    reading_limits.limit(MEMORY)
    ended = {"result": 0, "error": 0}
    for number in range(int(first), int(first) + int(count)):
        with tempfile.TemporaryDirectory() as folder:
            source = sources[number % len(sources)]
            target = Path(folder) / source.name
            damage_done = damage(random.Random(f"{seed} {number}"), source, target)
            signal.alarm(int(seconds))
            try:
                READERS[reader](target, number, source)
                ended["result"] += 1
            except MsProfilerError as error:
                ended["error"] += 1
                if "\n" in str(error):
                    print(
                        json.dumps(
                            {"number": number, "damage_done": damage_done, "source": str(source), "error": str(error)}
                        )
                    )
            except BaseException:  # noqa: BLE001 - of Rust, too
                signal.alarm(0)
                text_of = traceback.format_exc()
                print(
                    json.dumps({"number": number, "damage_done": damage_done, "source": str(source), "error": text_of}),
                    flush=True,
                )
                if os.environ.get("KEEP"):
                    keep(seed, number, source)
            finally:
                signal.alarm(0)
    print(json.dumps(ended))


main(*sys.argv[1:])
