"""A profiled training job ends like the bare one, in every way; the analysis reads its steps up to the end."""

import signal

import pytest
from unharmed import analysed, training

ASK = "os.kill(os.getpid(), signal.{}); signal.pause()"
HANDLER = "signal.signal(signal.SIGTERM, lambda *_: (print('handled', flush=True), sys.exit(6)))"

#: way -> text before the import of the framework, text after six steps, the job's end according to the summary
WAYS = {
    "return": ("", "", "exit"),
    "sys.exit(3)": ("", "sys.exit(3)", "exit code 3"),
    "sys.exit(text)": ("", "sys.exit('text')", "exit code 1"),
    "exception": ("", "raise KeyError('x')", "exception: KeyError"),
    "SystemExit in a thread": ("", "t = threading.Thread(target=sys.exit, args=(9,)); t.start(); t.join()", "exit"),
    "exception in a thread": ("", "t = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()", "exit"),
    "atexit that exits": ("import atexit; atexit.register(sys.exit, 7)", "", "exit"),
    "atexit after us": ("", "import atexit; atexit.register(lambda: print('late', step()))", "exit"),
    "daemon thread": (
        "",
        "threading.Thread(target=lambda: [step() for _ in iter(int, 1)], daemon=True).start()",
        "exit",
    ),
    "os._exit": ("", "os._exit(7)", "killed or vanished"),
    "os.abort": ("", "os.abort()", "killed or vanished"),
    "exec": ("", "os.execvp('sh', ['sh', '-c', 'echo out; exit 4'])", "killed or vanished"),
    **{
        name: (f"signal.signal(signal.{name}, signal.SIG_DFL)", ASK.format(name), "killed or vanished")
        for name in ("SIGTERM", "SIGSEGV", "SIGHUP", "SIGUSR1", "SIGPIPE")
    },
    "SIGKILL": ("", ASK.format("SIGKILL"), "killed or vanished"),
    "SIGINT": (
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        "os.kill(os.getpid(), 2); time.sleep(60)",
        "exception: KeyboardInterrupt",
    ),
    "SIGINT by default": ("signal.signal(signal.SIGINT, signal.SIG_DFL)", ASK.format("SIGINT"), "killed or vanished"),
    "SIGTERM ignored": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "os.kill(os.getpid(), 15); print(step(), signal.getsignal(15))",
        "exit",
    ),
    "handler from before": (HANDLER, "os.kill(os.getpid(), 15); time.sleep(60)", "exit code 6"),
    "handler from after": ("", f"{HANDLER}; os.kill(os.getpid(), 15); time.sleep(60)", "exit code 6"),
    "faulthandler": ("import faulthandler; faulthandler.enable()", "os.kill(os.getpid(), 11)", "killed or vanished"),
    "asyncio": (
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
        "import asyncio\n"
        "async def main():\n"
        "    asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)\n"
        "    try:\n"
        "        await asyncio.sleep(60)\n"
        "    finally:\n"
        "        print('cancelled', step(), flush=True)\n"
        "asyncio.run(main())",
        "exception: KeyboardInterrupt",
    ),
    "alarm as a timeout": (
        "class Timeout(Exception): pass\ndef stop(*_): raise Timeout\nsignal.signal(signal.SIGALRM, stop)",
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "try:\n"
        # In CPython 3.11 and 3.12, a signal on the way back to the first instruction of a `try` raises outside of this
        # `try`: 1.2 % of such loops failed without the profiler, too. So the loop is not the first statement.
        "    step()\n"
        "    while True: step()\n"
        "except Timeout:\n"
        "    print('stopped', flush=True)",
        "exit",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_job_ends_as_without_and_its_steps_are_there(twice, way):
    before, after, said = WAYS[way]
    run = twice(training(after, before), options={"overhead_budget": 0})
    if way.startswith("SIG") and said.startswith("killed"):
        assert run.code == -getattr(signal, way.partition(" ")[0])
    summary = analysed(run)
    assert summary["steps"]["count"] >= 6
    assert summary["run"]["processes"][0]["state"] == said
