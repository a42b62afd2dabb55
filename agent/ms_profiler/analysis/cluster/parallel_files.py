"""Report facts about a job's pipeline and experts: for its summary, and in two files beside those of msprof-analyze."""

import os
from typing import Any, Final

import polars as pl

from ms_profiler.analysis.cluster import vendor_files
from ms_profiler.analysis.cluster.expert_load import Experts
from ms_profiler.analysis.cluster.stage_bubbles import Pipeline
from ms_profiler.analysis.cluster.whole_job import WholeJob
from ms_profiler.store import layout

BUBBLES: Final = "pipeline_bubbles.csv"
LOADS: Final = "expert_load.csv"


def write(job: WholeJob, output: str) -> None:
    """Write the two files. If the facts for a file are unknown, remove an older file of this name.

    Args:
        job: the ranks of the job.
        output: the directory that receives `cluster_analysis_output`.

    Raises:
        OSError: the files cannot be written.
    """
    target = os.path.join(output, vendor_files.FOLDER)
    os.makedirs(target, mode=layout.DIRECTORY_MODE, exist_ok=True)
    found = job.pipeline
    bubbles = b"" if found is None else _bubbles(found).write_csv().encode()
    loads = pl.concat([_loads(each) for each in job.experts]).write_csv().encode() if job.experts else b""
    vendor_files.replace(os.path.join(target, BUBBLES), [bubbles])
    vendor_files.replace(os.path.join(target, LOADS), [loads])


def _bubbles(found: Pipeline) -> pl.DataFrame:
    return found.table.select(
        pl.col("step").alias("Step"),
        pl.col("stage").alias("Stage"),
        (pl.col("bubble_ns") / 1000).round(3).alias("Bubble(us)"),
        (pl.col("step_ns") / 1000).round(3).alias("Step Time(us)"),
    )


def _loads(found: Experts) -> pl.DataFrame:
    return found.table.select(
        pl.lit(" ".join(str(load.rank) for load in found.ranks)).alias("Group"),
        pl.col("rank").alias("Rank"),
        pl.col("step").alias("Step"),
        pl.col("bytes").alias("Bytes"),
        (pl.col("expert_ns") / 1000).round(3).alias("Expert Time(us)"),
        (pl.col("wait_ns") / 1000).round(3).alias("Wait(us)"),
    )


def pipeline(found: Pipeline | None) -> dict[str, Any] | None:
    """Return the stages of a pipeline for the job's summary. Each time is the mean over the steps, in milliseconds.

    Args:
        found: the stages; None if they are unknown.
    """
    if found is None:
        return None
    steps = max(found.steps, 1)
    return {
        "known_by": list(found.known_by),
        "steps": found.steps,
        "stages": [
            {
                "stage": stage.number,
                "ranks": list(stage.ranks),
                "bubble_ms": _ms(stage.bubble_ns / steps),
                "share": round(stage.share, 6),
            }
            for stage in found.stages
        ],
        "slow_stages": [{"stage": late.rank, "excess_ms": _ms(late.excess_ns / steps)} for late in found.slow],
    }


def experts(found: Experts) -> dict[str, Any]:
    """Return the load of ranks that share experts, for the job's summary: sums over the steps, times in milliseconds.

    Args:
        found: the ranks of one group.
    """
    return {
        "known_by": found.known_by,
        "steps": found.steps,
        "most_bytes_to_mean": round(found.most_bytes, 6),
        "most_time_to_mean": round(found.most_time, 6),
        "lost_ms": _ms(found.lost_ns),
        "busy_ranks": [late.rank for late in found.busy],
        "ranks": [
            {
                "rank": load.rank,
                "bytes": load.bytes,
                "expert_ms": _ms(load.expert_ns),
                "wait_ms": _ms(load.wait_ns),
            }
            for load in found.ranks
        ],
    }


def _ms(nanoseconds: float) -> float:
    return round(nanoseconds / 1e6, 6)
