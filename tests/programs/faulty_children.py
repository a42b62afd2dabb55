"""Run children of this process one after another, each with one fault planted, and tell what came of each."""

import atexit
import json
import os
import sys
import traceback


def each(faults, folder, options, plant, work):
    """Run a child for each fault, and print a line of JSON for it. The child "bare" has no session.

    Args:
        faults: the faults.
        folder: receives a folder for each child, with its results.
        options: the options of the profiler but for the path.
        plant: plants a fault in the child before its session begins; called with the fault and a list that is no longer
            empty once the fault was reached, which may also hold what the child tells.
        work: the work of the child; it returns what is to be compared.
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
            told = stream.read()
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        result, error, reached = json.loads(told or b'["", "no report", []]')
        told = {"pid": pid, "code": code, "result": result, "error": error, "reached": reached, "err": err}
        print(json.dumps({"fault": fault} | told))


def _child(fault, output, options, plant, work, report):
    """Work with one fault, and write to a pipe what came of it."""
    reached, result, error = [], "", ""
    # registered first, called last: what our own exit does is told, too
    atexit.register(lambda: os.write(report, json.dumps([result, error, reached]).encode()))
    if fault != "bare":
        os.environ["MS_PROFILER_OPTIONS"] = json.dumps({"start": True, "output_path": output} | options)
        plant(fault, reached)
        from ms_profiler.job import bootstrap

        bootstrap.activate()  # the framework is there already
    try:
        result = work()
    except BaseException:  # noqa: BLE001 - whatever harms the job
        error = traceback.format_exc()
    sys.exit(7)
