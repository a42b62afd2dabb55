"""Make up names until no more are kept. argv: recorder, folder"""

import sys

from recorders import make

recorder = make(sys.argv[1])
recorder.open(sys.argv[2])
ids = [recorder.intern(f"{number} {'x' * 8100}") for number in range(9000)]
kept = 9000 - ids.count(0)
assert 60 << 20 < kept * 8100 < 64 << 20
assert not any(ids[kept:])
assert recorder.stats().dropped == ids.count(0)
assert recorder.intern(f"0 {'x' * 8100}") == ids[0], "what is kept stays"
recorder.close()
print("ok")
