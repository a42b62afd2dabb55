import threading

from conftest import eventually
from ms_profiler.job.frameworks.mindspore import native_threads
from ms_profiler.job.frameworks.mindspore.native_threads import NativeThreads


def started(work):
    """Start a thread that runs `work`; return the thread and its id in the system, as a text."""
    before = set(native_threads.numbers())
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    (number,) = set(native_threads.numbers()) - before
    return thread, number


def test_a_thread_that_waits_is_still_after_two_looks():
    done = threading.Event()
    thread, number = started(done.wait)
    threads = NativeThreads([number])
    assert not threads.still()  # one look is not enough
    assert threads.settle()
    threads.forget()
    assert not threads.still()
    done.set()
    thread.join()


def test_a_thread_that_works_is_not_still(monkeypatch):
    monkeypatch.setattr(native_threads, "PATIENCE", 0.2)
    done = threading.Event()

    def work():
        while not done.is_set():
            sum(range(1000))

    thread, number = started(work)
    assert not NativeThreads([number]).settle()
    done.set()
    thread.join()
    eventually(lambda: number not in native_threads.numbers())
    assert NativeThreads([number]).settle()  # the thread has ended


def test_the_calling_thread_is_at_work(monkeypatch):
    monkeypatch.setattr(native_threads, "PATIENCE", 0.1)
    assert not NativeThreads([str(threading.get_native_id())]).settle()
