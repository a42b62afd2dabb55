"""Call Python functions in a known way while the extension traces them, and print the calls in the store.

    python call_tree.py EXTENSION STORE CASE

EXTENSION is the path of the extension. Any CPython that has cffi can run the program. The first line of the output has
the number of dropped records. Each further line is a call: its thread, depth, function and flags. The lines are sorted
by thread and begin of the call.
"""

import asyncio
import functools
import glob
import os
import struct
import sys
import threading

import extension

SLOT = struct.Struct("=QQQIBBBB")
LINE = 2**22 - 1
MARKS = {1: "raised", 2: "cut", 64: "resumed", 128: "yielded"}


def leaf():
    return 1


def inner():
    return leaf(), leaf()


def outer():
    inner()
    leaf()


def nested():
    outer()
    outer()


def generator():
    try:
        yield leaf()
        yield 2
    finally:
        leaf()


def generators():
    list(generator())
    stopped = generator()
    next(stopped)
    stopped.close()
    delegates()


def delegating():
    yield from generator()


def delegates():
    for _ in delegating():
        pass


async def waits(times):
    for _ in range(times):
        await asyncio.sleep(0)
    return leaf()


async def together():
    await asyncio.gather(waits(1), waits(2))


def coroutines():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(together())
    loop.close()


def fails():
    leaf()
    raise ValueError


def catches():
    try:
        passes_on()
    except ValueError:
        leaf()


def passes_on():
    fails()


def exceptions():
    catches()
    thrown = generator()
    next(thrown)
    try:
        thrown.throw(ValueError)
    except ValueError:
        pass


def key(value):
    leaf()
    return -value


class Called:
    def __init__(self):
        leaf()

    def __call__(self, value):
        return key(value)

    def __lt__(self, other):
        leaf()
        return False


def callbacks():
    sorted([3, 1, 2], key=key)
    list(map(Called(), [1]))
    functools.reduce(add, [1, 2, 3])
    max([Called(), Called()])


def add(left, right):
    return left + right


def deep():
    sys.setrecursionlimit(20000)
    falls(3000)


def falls(levels):
    if levels:
        falls(levels - 1)


def in_threads():
    for name in "one", "two":
        thread = threading.Thread(target=outer, name=name)
        thread.start()
        thread.join()


def greenlets():
    import greenlet

    def hops(other):
        leaf()
        (main if other is None else other).switch()
        leaf()

    main = greenlet.getcurrent()
    second = greenlet.greenlet(lambda: hops(None))
    first = greenlet.greenlet(lambda: hops(second))
    first.switch()
    first.switch()
    second.switch()


def exits():
    try:
        sys.exit(3)
    except SystemExit:
        leaf()


CASES = {
    "nested": nested,
    "generators": generators,
    "coroutines": coroutines,
    "exceptions": exceptions,
    "callbacks": callbacks,
    "deep": deep,
    "threads": in_threads,
    "greenlets": greenlets,
    "exits": exits,
}


def read(folder):
    """Read the segments; return the names by id, and the calls: thread, start, end, name, flags, file."""
    names, calls = {0: ""}, []
    for path in sorted(glob.glob(os.path.join(folder, "*.seg"))):
        with open(path, "rb") as file:
            content = file.read()
        at, thread = 128, 0
        while at + SLOT.size <= len(content):
            start, end, arg, name, kind, _, flags, extra = SLOT.unpack_from(content, at)
            at += SLOT.size
            if kind == 0:
                break
            if kind == 6:
                names[name] = content[at : at + arg].decode()
                at += SLOT.size * extra
            elif kind == 8:
                thread = arg
            elif kind == 15 and end:  # a call without an end comes again, with its end, later in the file
                calls.append((arg & LINE or thread, start, end, name, flags, arg >> 44))
    return names, calls


def tree(calls):
    """Yield the depth and the fields of each call in the order of begins; the store has the order of ends."""
    stack = []
    calls.reverse()
    for thread, start, end, *rest in sorted(calls, key=lambda call: (call[0], call[1], -call[2])):
        while stack and (stack[-1][0] != thread or stack[-1][1] <= start):
            stack.pop()
        assert not stack or end <= stack[-1][1], (stack[-1], start, end)
        yield len(stack), (thread, *rest)
        stack.append((thread, end))


def main():
    native = extension.load(sys.argv[1])
    folder, case, c_calls = sys.argv[2], sys.argv[3], len(sys.argv) > 4
    if case == "greenlets":
        import greenlet  # noqa: F401 - as a job that uses them has done
    extension.open_store(native, folder, 64)
    release, switch, disable = extension.register(native, c_calls)
    assert native.trace_calls(0.0, 0, c_calls, (), (), switch, disable)
    if release is None:
        threading.setprofile(native.profile_hook)
    CASES[case]()
    native.trace_no_calls()
    native.lib.msp_close()
    names, calls = read(folder)
    print(native.stats()[1])
    own = [call for call in calls if names[call[-1]].endswith("call_tree.py") or not call[-1]]
    for depth, (thread, name, flags, _) in tree(own):
        if names[name] not in ("<module>", "main"):
            marks = [mark for bit, mark in MARKS.items() if flags & bit]
            print(thread, depth, names[name].rpartition(".")[2], *marks)


if __name__ == "__main__":
    main()
