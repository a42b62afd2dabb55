"""Fork children one after another, each with one planted fault, and report how each of them ends."""

import atexit
import json
import os
import sys
import traceback


def each(faults, folder, options, plant, work):
    """Fork a child for each fault, and print a line of JSON about it; the child "bare" has no session.

    Args:
        faults: the names of the faults.
        folder: a folder that receives one folder for each child, with its results.
        options: the options of the profiler without `start` and `output_path`.
        plant: a function that plants a fault in the child before its session begins. Its arguments are the fault and a
            list. It appends to the list once the child reaches the fault. The list is part of the child's report.
        work: the function that the child runs; its result is part of the report.
    """
    for fault in faults:
        reader, writer = os.pipe()
        error_reader, error_writer = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            os.close(reader)
            os.dup2(error_writer, 2)
            os.close(error_writer)
            os.close(error_reader)
            _child(fault, os.path.join(folder, str(os.getpid())), options, plant, work, writer)
        os.close(writer)
        os.close(error_writer)
        with os.fdopen(error_reader, "rb") as stream:
            err = stream.read().decode()
        with os.fdopen(reader, "rb") as stream:
            sent = stream.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        result, error, reached = json.loads(sent or b'["", "no report", []]')
        sent = {"pid": pid, "code": code, "result": result, "error": error, "reached": reached, "err": err}
        print(json.dumps({"fault": fault} | sent))


def _child(fault, output, options, plant, work, report):
    """Plant one fault, work, and write the result, the error and the reached faults to the pipe `report`."""
    reached, result, error = [], "", ""
    # The exit function that is registered first runs last, so that the report includes faults in ms-profiler's own
    # exit.
    atexit.register(lambda: os.write(report, json.dumps([result, error, reached]).encode()))
    if fault != "bare":
        os.environ["MS_PROFILER_OPTIONS"] = json.dumps({"start": True, "output_path": output} | options)
        plant(fault, reached)
        from ms_profiler.job import bootstrap

        bootstrap.activate()  # the framework is imported already
    try:
        result = work()
    except BaseException:  # noqa: BLE001 - whatever harms the job
        error = traceback.format_exc()
    sys.exit(7)
