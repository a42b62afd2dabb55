"""Write the result of a made-up PyTorch job, in which the times of every step are known to the nanosecond."""

from ms_profiler.store.format import Category, Flag, StepSource
from store_builder import RAW_NS, StoreBuilder

MS = 1_000_000
FRAMEWORK = {"name": "torch", "version": "2.13.0", "mode": "eager", "device": "CPU", "processors": "2"}


def compared_run(
    parent,
    *,
    number=0,
    steps=12,
    data=3.0,
    layers=(2.0,) * 6,
    net="Net",
    copies=1,
    reads=0,
    exchanges=(),
    compiles=0.0,
    factor=1.0,
    long=0.0,
    every=0,
    pause=0.0,
    sampled=0,
    recording=0.0,
    evaluation=0.0,
    first=0.0,
    ending=0.0,
):
    """Write a result and return its path.

    Args:
        parent: directory of the result.
        number: distinguishes the result from others in the directory.
        steps: the number of steps.
        data: milliseconds that each step waits for data.
        layers: the milliseconds of each layer, one number a layer.
        net: name of the network.
        copies: the number of copies of a tensor, 1 ms each, outside of modules.
        reads: the number of reads of a value, 0.1 ms each, outside of modules.
        exchanges: the bytes of each exchange with other ranks. An exchange takes 1 ms, and 1 ms more for each megabyte.
        compiles: milliseconds of a compilation in each step.
        factor: the factor by which all durations are multiplied.
        long: milliseconds by which the first layer is longer in the last step.
        every: a step has a pause, outside of modules, if its number is a multiple of this; 0 for no pauses.
        pause: milliseconds of such a pause.
        sampled: if it is not 0, steps were sampled: those whose number is a multiple of this. 0 if all were recorded.
        recording: milliseconds by which recording makes the first layer of a recorded step longer.
        evaluation: milliseconds of an evaluation after every tenth step.
        first: milliseconds by which the first layer is longer in the first step.
        ending: milliseconds from the end of the last step to the end of the process.
    """
    name = f"host_{4242 + number}_2026010100000{number}123_ascend_ms"
    store = StoreBuilder(
        parent, name, framework=FRAMEWORK, machine={"cpu": "a processor", "cores": "4"}, python="3.11.7"
    )
    process = store.process()
    thread = process.thread()
    start = 50 * MS

    def after(milliseconds):
        nonlocal start
        begin, start = start, start + round(milliseconds * factor * MS)
        return begin, start

    for step in range(steps):
        begun = start
        whole = not sampled or step % sampled == 0
        thread.span("wait for Data", Category.DATA, *after(data))
        if compiles:
            thread.instant("recompile Net: another shape", Category.COMPILE, start)
            thread.span("compile Net", Category.COMPILE, *after(compiles))
        forward, inside = start, []
        for layer, took in enumerate(layers):
            more = long * (step == steps - 1) + first * (step == 0) + recording * whole
            inside.append((f"{net}.{layer}", *after(took + more * (layer == 0))))
        thread.span(f"{net}.forward", Category.FORWARD, forward, start)
        if whole:
            thread.span(net, Category.MODULE, forward, start)
        for path, begin, end in inside if whole else ():
            thread.span(path, Category.MODULE, begin, end)
            thread.span("aten::mm", Category.OP, begin, end)
        for _ in range(copies):
            took = after(1)
            if whole:
                thread.span("aten::copy_", Category.OP, *took)
        for _ in range(reads):
            thread.span("aten::_local_scalar_dense", Category.OP, *after(0.1))
        for size in exchanges:
            thread.span("AllReduce@world", Category.COMMUNICATION, *after(1 + size / 1e6), arg=size)
        if every and step % every == 0:
            after(pause)
        begin, end = after(1)
        thread.span("SGD.step", Category.OPTIMIZER, begin, end)
        if whole:
            thread.span("aten::add_", Category.OP, begin, end)
        coarse = 0 if whole else Flag.COARSE
        thread.step(step, begun, start, source=StepSource.OPTIMIZER_CYCLE, flags=coarse)
        if evaluation and step % 10 == 9:
            thread.span("evaluate", Category.EVALUATION, *after(evaluation))
    after(ending)
    process.anchor(start + MS)
    process.info.ended_ns = RAW_NS + start + MS
    return str(store.write())
