"""Record in a parent and in its forked children at the same time, each process into its own folder.

argv: recorder, parent's folder, spans, children's folders...
"""

import os
import sys
import threading

from recorders import make

recorder = make(sys.argv[1])
spans = int(sys.argv[3])
recorder.open(sys.argv[2], first_slots=16)
before = recorder.intern("known before the fork")
helper_done = threading.Event()


def record(label):
    name = recorder.intern(label)
    for number in range(spans):
        token = recorder.begin(name, 1, number)
        recorder.end(recorder.begin(before, 2, number))
        recorder.end(token)


outer = recorder.begin(before, 3)
noise = threading.Thread(target=record, args=("another thread of the parent",))
noise.start()
children = []
for folder in sys.argv[4:]:
    child = os.fork()
    if child == 0:
        assert recorder.begin(before, 1) == 0, "the child records before it opens a store"
        recorder.end(outer)
        assert recorder.stats().records == 0
        recorder.open(folder, first_slots=16)
        recorder.end(outer)
        record("child")
        os.mkdir(folder + "/grandchild")
        grandchild = os.fork()
        if grandchild == 0:
            recorder.open(folder + "/grandchild")
            record("grandchild")
            recorder.close()
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
        os.rename(folder + "/grandchild", f"{folder}-{grandchild}")
        recorder.close()
        os._exit(0)
    children.append(child)
    record("parent")
for child in children:
    assert os.waitpid(child, 0)[1] == 0
noise.join()
recorder.end(outer)
recorder.close()
print(os.getpid(), *children)
