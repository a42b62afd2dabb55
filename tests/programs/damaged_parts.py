"""Parse damaged content, and print a line of JSON for each content that a parser neither takes nor refuses.

`damaged_results.py` analyses whole results, a few in a second. This program runs only the functions that take bytes of
a file apart, so that it tries a thousand inputs in a second. usage: damaged_parts.py PARSER SEED FIRST COUNT SOURCE...
"""

import json
import os
import random
import signal
import sys
import traceback
from pathlib import Path

import reading_limits
from column_kinds import BOTH, wanted
from damage import change
from ms_profiler import options
from ms_profiler.analysis.readers import ascend_db, ascend_text, slot_table, trace_text
from ms_profiler.errors import MsProfilerError
from ms_profiler.job.control.dynamic_file import DynamicFile
from ms_profiler.store import format as fmt, reader
from ms_profiler.store.reader import ReadCounts
from polars.testing import assert_frame_equal

#: bytes of address space that the process may use
MEMORY = 4 << 30
#: seconds that a parser may take
SECONDS = 20
#: the selection of all slots; made once, because that takes longer than to take the slots apart
ALL = wanted()
#: the extension's tables are compared with those of Polars for one of this number of contents
COMPARED = 50


def records(path, number):
    """Read the files of a process, and take their slots apart."""
    counts = ReadCounts()
    store = reader.read_process(str(path.parent), counts)
    if store is None:
        return
    for batch in slot_table.batches(store, counts):
        pieces = [segment.piece for segment in batch]
        native = tables(BOTH[0], pieces)
        if number % COMPARED == 0:
            for ours, plain in zip(native, tables(BOTH[1], pieces), strict=True):
                assert_frame_equal(ours, plain)


def tables(columns, pieces):
    """Return the tables that an implementation of `Columns` makes of slots."""
    coarse, traced = columns.coarse(pieces, ALL, 1), columns.devices(pieces, ALL)
    return [coarse.table, coarse.fine, columns.spans(pieces, ALL), traced.calls, traced.ran, traced.others]


def trace(path, number):
    """Take the text of a trace apart, packed or not."""
    for events in trace_text.TraceText(str(path), ReadCounts()).lists():
        assert isinstance(events, list)


def cells(path, number):
    """Take a table of CSV apart."""
    ascend_text.table(str(path), ReadCounts())


def rows(path, number):
    """Read a database, and assemble the run from its tables."""
    ascend_db.read(str(path.parent.parent), str(path))


def option_text(path, number):
    """Parse a value of the variable."""
    options.parse(path.read_bytes().decode("utf-8", "surrogateescape"))


def dynamic(path, number):
    """Read the file of the option `dynamic`; the job expects either values or a ValueError."""
    DynamicFile(str(path), {}, 0).look()


PARSERS = {
    "records": records,
    "trace": trace,
    "packed": trace,
    "cells": cells,
    "rows": rows,
    "options": option_text,
    "dynamic": dynamic,
}


def content(path):
    """Return the bytes of a file; of records without the unused slots at the end, so that less time is spent there."""
    known = path.read_bytes()
    if path.suffix == ".seg":
        known = known[: -(-len(known.rstrip(b"\0")) // fmt.SLOT_SIZE) * fmt.SLOT_SIZE]
        path.write_bytes(known)
    return known


def main(parser, seed, first, count, *names):
    """Damage the files, one at a time, and parse each; the undamaged content comes back after each time."""
    known = {path: content(path) for path in map(Path, names)}
    paths = sorted(known)
    reading_limits.limit(MEMORY)
    ended = {"result": 0, "error": 0}
    for number in range(int(first), int(first) + int(count)):
        wait = random.Random(f"{seed} {number}")
        path = wait.choice(paths)
        done = change(wait, path)
        signal.alarm(SECONDS)
        try:
            PARSERS[parser](path, number)
            ended["result"] += 1
        except (MsProfilerError, ValueError) as error:
            signal.alarm(0)
            ended["error"] += 1
            if not isinstance(error, MsProfilerError) and parser != "dynamic":
                wrong(number, done, path)
        except BaseException:  # noqa: BLE001 - of Rust, too
            signal.alarm(0)
            wrong(number, done, path)
        finally:
            signal.alarm(0)
            path.write_bytes(known[path])
    print(json.dumps(ended))


def wrong(number, done, path):
    """Print what was raised for a content, and keep the content in the directory $KEEP."""
    print(json.dumps({"number": number, "change": done, "of": path.name, "error": traceback.format_exc()}), flush=True)
    if os.environ.get("KEEP"):
        Path(os.environ["KEEP"], f"{number} {path.name}").write_bytes(path.read_bytes())


main(*sys.argv[1:])
