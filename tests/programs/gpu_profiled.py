"""Run a loop under PyTorch's own profiler or under ms-profiler, for programs that run on a GPU."""


def profiled(loop, steps, trace=None):
    """Run a loop under one of the two profilers.

    Args:
        loop: a function that runs the steps and calls its argument after each of them.
        steps: the number of steps.
        trace: the file for the trace of PyTorch's own profiler; with None, ms-profiler records into the folder "own".
    """
    if trace is not None:
        import torch

        with torch.profiler.profile() as profiler:
            loop(lambda: None)
        profiler.export_chrome_trace(trace)
        return
    import ms_profiler

    handler = ms_profiler.tensorboard_trace_handler("own")
    schedule = ms_profiler.schedule(wait=0, active=steps, repeat=1)
    with ms_profiler.profile(schedule=schedule, on_trace_ready=handler) as profiler:
        loop(profiler.step)
