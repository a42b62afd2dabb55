"""Utilization of the machine, from the work of a step that the user states."""

from dataclasses import dataclass

from ms_profiler.errors import UsageError


@dataclass(frozen=True)
class Workload:
    """The work of a step, as the user states it; None for each value that the user did not state.

    Attributes:
        flops_per_step: floating-point operations that the model needs per step, without recomputation.
        peak_flops: floating-point operations per second that the device can do.
        tokens_per_step: number of tokens, or samples, per step.
    """

    flops_per_step: float | None = None
    peak_flops: float | None = None
    tokens_per_step: float | None = None

    def __post_init__(self) -> None:
        """Refuse impossible values.

        Raises:
            UsageError: a number is not positive.
        """
        for name, value in vars(self).items():
            if value is not None and not 0 < value < float("inf"):
                option = f"--{name.replace('_', '-')}"
                raise UsageError(f"{option} is {value:g}, but must be a positive number.")

    @property
    def given(self) -> bool:
        """Return whether the user stated anything."""
        return any(value is not None for value in vars(self).values())


@dataclass(frozen=True)
class Utilization:
    """The utilization of the machine; None for each value that a missing number leaves unknown.

    Attributes:
        flops_per_second: the floating-point operations per second that the job reaches.
        mfu: model FLOPs utilization, from 0 to 1.
        tokens_per_second: the tokens per second that the job reaches.
    """

    flops_per_second: float | None
    mfu: float | None
    tokens_per_second: float | None


def reached(workload: Workload, mean_ms: float | None) -> Utilization:
    """Return the utilization that the job reaches.

    - flops per second = flops per step / seconds per step.
    - MFU = flops per second / peak flops: observed throughput over the theoretical maximum (Chowdhery et al., PaLM,
      2022, appendix B).
    - tokens per second = tokens per step / seconds per step.

    Args:
        workload: the user's statement about the work of this process.
        mean_ms: mean duration of a steady step, milliseconds; None without steps.
    """
    if not mean_ms:
        return Utilization(None, None, None)
    seconds = mean_ms / 1e3
    flops = None if workload.flops_per_step is None else workload.flops_per_step / seconds
    mfu = None if flops is None or workload.peak_flops is None else flops / workload.peak_flops
    tokens = None if workload.tokens_per_step is None else workload.tokens_per_step / seconds
    return Utilization(flops, mfu, tokens)
