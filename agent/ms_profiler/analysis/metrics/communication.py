"""List the exchanges with other ranks, call by call."""

import re
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import intervals, messages, replicas
from ms_profiler.analysis.metrics.steps import Steps
from ms_profiler.analysis.model import tables
from ms_profiler.store.format import Category
from ms_profiler.store.names import COMMUNICATION_WAIT, GRADIENTS

#: separator of operation and group in the name of a span
_GROUP: Final = "@"
_RANK: Final = re.compile(r"rank (?P<rank>\d+) of (?P<size>\d+)")
_EXCHANGE: Final = re.compile(r"exchange (?P<call>.+) of (?P<shapes>[-\d,;]*) by (?P<kernel>.+)", re.DOTALL)
_PARALLEL: Final = re.compile(r"parallel mode (?P<mode>\w+) in (?P<stages>[1-9]\d*) stages")
_PURPOSE: Final = re.compile(r"group (?P<group>.*?) for (?P<purpose>.*)", re.DOTALL)
_RANKS: Final = re.compile(r"group (?P<group>.*) ranks (?P<ranks>\d+(-\d+)?(,\d+(-\d+)?)*)")
#: primitives whose kernels exchange data instead of computing -> kind of exchange
COLLECTIVES: Final = {
    "AllGather": "AllGather",
    "AllGatherV": "AllGather",
    "AllReduce": "AllReduce",
    "AlltoAll": "AllToAll",
    "AlltoAllV": "AllToAll",
    "AlltoAllVC": "AllToAll",
    "Barrier": "Barrier",
    "BatchISendIRecv": "BatchSendReceive",
    "Broadcast": "Broadcast",
    "CollectiveGather": "Gather",
    "CollectiveScatter": "Scatter",
    "NeighborExchange": "NeighborExchange",
    "NeighborExchangeV2": "NeighborExchange",
    "Receive": "Receive",
    "Reduce": "Reduce",
    "ReduceScatter": "ReduceScatter",
    "ReduceScatterV": "ReduceScatter",
    "Send": "Send",
}


_OPERATIONS: Final = {name.lower(): does for name, does in COLLECTIVES.items()}
_CALLED: Final = pl.Schema(
    {"call": pl.String, "bytes": pl.Int64, "called_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}
)


def calls(
    recording: tables.Recording, steps: Steps, kernels: pl.DataFrame, kernel_names: pl.DataFrame, texts: pl.Series
) -> pl.DataFrame:
    """Return the exchanges in the steps whose bytes are known, sorted by start.

    An exchange is a call of the script, a kernel of a compiled graph, or an exchange of DistributedDataParallel. If a
    device's interface reported the bytes and the group of an exchange, the exchange is included even without a known
    call.

    The host usually only queues an exchange. So if the kernel of an exchange is known, the exchange has the kernel's
    start and end. An exchange on gloo's threads ends when these threads finish.

    Args:
        recording: the run. Spans named `OPERATION@GROUP` carry the bytes; instants describe the exchanges of graphs.
        steps: the steps in use.
        kernels: table of kernels, with the columns of `tables.KERNELS`.
        kernel_names: table of kernel names, with the columns of `tables.KERNEL_NAMES`.
        texts: the texts to which the column `shapes` of the kernels refers by row.

    Returns:
        `operation`, `group`, `number` (position of the call among the calls of its group), `bytes`, `start_ns`,
        `end_ns`, `step` (row of `steps.table`), and the columns of `messages.PEERS`.
    """
    own = kernels.filter(pl.col("process") == steps.process)
    if recording.device is not None:  # a call may also launch kernels that only compute
        own = recording.device.exchanging(own, "semi")
    ran = replicas.beside(recording, steps)
    grouped = split(called(recording, steps))
    pairs = replicas.paired(grouped, ran, steps)
    from_script = _called(grouped.with_columns(replicas.ends(grouped, ran, pairs)), own)
    compiled = _compiled(recording, own.filter(pl.col("launch").is_null()), kernel_names, texts)
    buckets = [_buckets(recording, steps, grouped, ran, pairs), _device_buckets(recording, steps, grouped)]
    table = pl.concat([from_script, compiled, _reported(recording, steps, own), *buckets], how="diagonal")
    parts = table["call"].str.split_exact(_GROUP, 1).struct.rename_fields(["operation", "group"])
    return (
        table.with_columns(
            *parts.struct.unnest().get_columns(), intervals.locate(table["called_ns"], steps.table).alias("step")
        )
        .filter(pl.col("group").is_not_null())
        .sort("start_ns", "end_ns", "operation")
        .with_columns(pl.int_range(pl.len()).over("group").alias("number"))
        .filter(pl.col("step").is_not_null())
        .select("operation", "group", "number", "bytes", "start_ns", "end_ns", "step", *messages.PEERS)
    )


def replicated(recording: tables.Recording, steps: Steps, rows: list[int]) -> tuple[pl.DataFrame, int]:
    """Return the exchanges that DistributedDataParallel's own threads ran in some steps, and their bytes per step.

    Args:
        recording: the run; its instants tell the bytes of the gradients.
        steps: the steps in use.
        rows: rows of the steps to look at.

    Returns:
        A table with `start_ns` and `end_ns` of the exchanges, without overlap, sorted by time. Second, the bytes that
        the exchanges move per step; 0 if unknown.
    """
    notes = recording.instants.filter(
        pl.col("process") == steps.process, pl.col("category") == Category.COMMUNICATION
    ).unique("name")
    sizes = notes.filter(recording.names.str.starts_with(GRADIENTS).fill_null(False).gather(notes["name"]))["arg"]
    beside = recording.spans.filter(
        pl.col("process") == steps.process,
        pl.col("thread") != steps.thread,
        pl.col("category") == Category.COMMUNICATION,
    )
    known = steps.table.with_row_index("row").filter(pl.col("row").is_in(rows))
    inside = beside.filter(intervals.locate(beside["start_ns"], known).is_not_null())
    return intervals.union(inside), int(sizes.sum())


def timed(table: pl.DataFrame) -> pl.DataFrame:
    """Return the exchanges with known bytes and a duration above 0; add the column `duration_ns`.

    Args:
        table: the table of `calls`.
    """
    took = table.with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
    return took.filter(pl.col("bytes") > 0, pl.col("duration_ns") > 0)


def called(recording: tables.Recording, steps: Steps) -> pl.DataFrame:
    """Return the script's calls that exchange data or that wait for an exchange.

    Args:
        recording: the recording, with its spans.
        steps: the steps in use.

    Returns:
        `row` (of the spans), `call` (`OPERATION@GROUP`, or the name of the wait), `bytes`, `start_ns`, `end_ns`, and
        the columns of `messages.PEERS`, sorted by row.
    """
    chosen = recording.spans.with_row_index("row").filter(
        pl.col("category") == Category.COMMUNICATION, pl.col("process") == steps.process
    )
    table = chosen.select(
        "row",
        recording.names.gather(chosen["name"]).alias("call"),
        pl.col("arg").cast(pl.Int64).alias("bytes"),
        "start_ns",
        "end_ns",
        "thread",
    )
    known = table.filter(pl.col("call").str.contains(_GROUP, literal=True) | (pl.col("call") == COMMUNICATION_WAIT))
    peers = messages.peers(recording, known, steps.process, ranks(recording.instants, recording.names))
    return known.join(peers, on="row", how="left", maintain_order="left").drop("thread")


def _called(grouped: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the script's calls that exchange data.

    The columns are `call`, `bytes`, `called_ns`, `start_ns`, `end_ns`, and those of `messages.PEERS`.
    """
    queued = kernels.select(pl.col("launch").alias("row"), pl.col("start_ns").alias("ran_ns"), "duration_ns")
    return (
        grouped.filter(pl.col("bytes") > 0)
        .join(queued.drop_nulls("row"), on="row", how="left", maintain_order="left")
        .select(
            pl.format("{}{}{}", "operation", pl.lit(_GROUP), "group").alias("call"),
            "bytes",
            pl.col("start_ns").alias("called_ns"),
            pl.coalesce("ran_ns", "start_ns").alias("start_ns"),
            pl.coalesce(pl.col("ran_ns") + pl.col("duration_ns"), "end_ns").alias("end_ns"),
            *messages.PEERS,
        )
    )


def _buckets(
    recording: tables.Recording, steps: Steps, grouped: pl.DataFrame, ran: pl.DataFrame, pairs: list[list[int]]
) -> pl.DataFrame:
    """Return the exchanges of DistributedDataParallel on gloo's threads, with the columns of `_called`."""
    if ran.is_empty():
        return pl.DataFrame(schema=_CALLED)
    known = replicas.known(recording, steps, grouped, ran, pairs)
    rows = ran[known["place"]]
    return _reduced(known, rows["start_ns"], rows)


def _device_buckets(recording: tables.Recording, steps: Steps, grouped: pl.DataFrame) -> pl.DataFrame:
    """Return the exchanges of DistributedDataParallel that a device ran, with the columns of `_called`."""
    known = replicas.on_device(recording, steps, grouped)
    if recording.device is None or known.is_empty():
        return pl.DataFrame(schema=_CALLED)
    rows = recording.device.tasks[known["place"]]
    return _reduced(known, rows["launch_ns"], rows)


def _reduced(known: pl.DataFrame, called: pl.Series, ran: pl.DataFrame) -> pl.DataFrame:
    """Return all-reduces, with the columns of `_called`.

    Args:
        known: known facts about each exchange, with the columns of `replicas.KNOWN`.
        called: when each exchange was called, in ns.
        ran: when each exchange ran: `start_ns`, `end_ns`.
    """
    call = known.select(pl.format("AllReduce{}{}", pl.lit(_GROUP), "group").alias("call"), "bytes")
    return call.with_columns(called.alias("called_ns"), *(ran[name] for name in intervals.BOUNDS)).cast(_CALLED)


def split(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that name a group, sorted by start. The columns `operation` and `group` replace `call`.

    Args:
        calls: the calls of `called`.
    """
    parts = calls["call"].str.split_exact(_GROUP, 1).struct.rename_fields(["operation", "group"]).struct.unnest()
    return pl.concat([parts, calls.drop("call")], how="horizontal").drop_nulls("group").sort("start_ns")


def _reported(recording: tables.Recording, steps: Steps, kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the exchanges of a device whose interface reported bytes and group, with the columns of `_called`."""
    device = recording.device
    if device is None or device.launches is None:
        return pl.DataFrame(schema=_CALLED)
    tasks = pl.concat([device.tasks.drop("shapes"), device.launches.select("bytes")], how="horizontal")
    known = tasks.filter(pl.col("exchange"), pl.col("bytes").is_not_null())
    with_bytes = called(recording, steps).filter(pl.col("bytes") > 0)["row"]
    ran = kernels.filter(~pl.col("launch").is_in(with_bytes.implode()).fill_null(False)).select("lane", "start_ns")
    alone = known.join(ran.unique(), left_on=["stream", "start_ns"], right_on=["lane", "start_ns"], how="semi")
    operations = pl.Series("call", [operation(name) for name in alone["name"]], dtype=pl.String)
    return alone.select(
        operations + _GROUP + pl.col("group"),
        "bytes",
        pl.coalesce("launch_ns", "start_ns").alias("called_ns"),
        "start_ns",
        "end_ns",
    ).cast(_CALLED)


def operation(kernel: str) -> str:
    """Return the operation of an HCCL kernel, a value of `COLLECTIVES`; if unknown, return part of the kernel's name.

    Args:
        kernel: the name of the kernel, such as `hcom_allReduce__868_0_1` or `HcclAllReduce`.
    """
    word = kernel.partition("__")[0].rstrip("_").removeprefix("hcom_").removeprefix("Hccl")
    return _OPERATIONS.get(word.lower(), word)


def _compiled(
    recording: tables.Recording, kernels: pl.DataFrame, kernel_names: pl.DataFrame, texts: pl.Series
) -> pl.DataFrame:
    """Return the exchanges of compiled graphs, with the columns of `_called`.

    Several graphs may have a kernel with the same name. The kernel is returned if all these graphs agree about its call
    and bytes. If they disagree, only those graphs are compared in which the kernel's inputs have the shapes of the run.
    The kernel is returned if these graphs agree.
    """
    noted = _noted(recording)
    named = noted.group_by("full_name").agg(pl.struct("call", "bytes").unique())
    shaped = noted.group_by("full_name", "shapes").agg(pl.struct("call", "bytes").unique())
    shapes = texts.gather(kernels["shapes"]).str.strip_chars_end(";").rename("shapes")
    rows = kernels.with_columns(kernel_names["full_name"].gather(kernels["kernel"]), shapes)
    sure = [
        pl.when(pl.col(column).list.len() == 1).then(pl.col(column).list.first()) for column in ("call", "call_shaped")
    ]
    found = (
        rows.join(named, on="full_name", how="inner", maintain_order="left")
        .join(shaped, on=["full_name", "shapes"], how="left", suffix="_shaped", maintain_order="left")
        .with_columns(pl.coalesce(sure).alias("exchange"))
        .drop("call", "call_shaped")
        .unnest("exchange")
    )
    return found.filter(pl.col("bytes") > 0).select(
        "call",
        "bytes",
        pl.col("start_ns").alias("called_ns"),
        "start_ns",
        (pl.col("start_ns") + pl.col("duration_ns")).alias("end_ns"),
    )


def _noted(recording: tables.Recording) -> pl.DataFrame:
    """Return what is noted about the exchanges of compiled graphs.

    The columns are `full_name` of the kernel, `shapes` of its inputs, `call`, `bytes`.
    """
    marks = recording.instants.filter(pl.col("category") == Category.COMMUNICATION).unique(["name", "arg"])
    found = [
        (match["kernel"], match["shapes"].rstrip(";"), match["call"], size)
        for text, size in zip(recording.names.gather(marks["name"]), marks["arg"], strict=True)
        if (match := _EXCHANGE.fullmatch(text))
    ]
    schema = {"full_name": pl.String, "shapes": pl.String, "call": pl.String, "bytes": pl.Int64}
    return pl.DataFrame(found, schema=schema, orient="row")


def settle_rank(recording: tables.Recording) -> None:
    """Write the rank into the run's record, or note there that the rank is unknown.

    Args:
        recording: the run. An instant named `rank NUMBER of SIZE` tells the rank. The session's own process records
            this instant, or a child process if the child is the rank.
    """
    info = recording.info
    notes = recording.instants.filter(pl.col("category") == Category.COMMUNICATION)
    own = notes.filter(pl.col("process") == info.pid)
    own = notes if own.is_empty() else own
    for text in recording.names.gather(own["name"].unique(maintain_order=True)):
        if match := _RANK.fullmatch(text):
            info.rank, info.world_size = int(match["rank"]), int(match["size"])
            break
    else:
        if not info.rank_known:
            why = "the framework assigns it, and the run ended before that"
            if recording.foreign:
                why = "the result does not contain it"
            info.not_collected.append({"what": "the rank", "why": f"{why}; {info.rank} stands in its place"})
    if not info.rank_known and info.options.get("ranks", "all") != "all":
        why = "the rank was unknown at the start, so every rank was recorded"
        info.not_collected.append({"what": "the choice of ranks", "why": why})


def ranks(instants: pl.DataFrame, names: pl.Series) -> dict[str, list[int]]:
    """Return the ranks of each group that was used: name of the group -> ranks, in the order of the group.

    Args:
        instants: table of instants, with the columns of `tables.INSTANTS`. Each group has an instant with a name like
            `group NAME ranks 0,1,4-7`.
        names: the names of the recording.
    """
    found = {}
    marks = instants.filter(pl.col("category") == Category.COMMUNICATION)["name"].unique(maintain_order=True)
    for text in names.gather(marks):
        if match := _RANKS.fullmatch(text):
            found[match["group"]] = [rank for part in match["ranks"].split(",") for rank in _range(part)]
    return found


def purposes(instants: pl.DataFrame, names: pl.Series) -> dict[str, list[str]]:
    """Return the purposes of each group: name of the group -> purposes, in the words of the script or of a device mesh.

    Args:
        instants: table of instants, with the columns of `tables.INSTANTS`. An instant named `group NAME for PURPOSE`
            tells a purpose.
        names: the names of the recording.
    """
    found: dict[str, list[str]] = {}
    marks = instants.filter(pl.col("category") == Category.COMMUNICATION)["name"].unique(maintain_order=True)
    for text in names.gather(marks):
        if match := _PURPOSE.fullmatch(text):
            found.setdefault(match["group"], []).append(match["purpose"])
    return found


def parallel(instants: pl.DataFrame, names: pl.Series, world_size: int) -> dict[str, int]:
    """Return the size of each kind of parallelism, by the name of Megatron's argument for it; empty if unknown.

    Args:
        instants: table of instants, with the columns of `tables.INSTANTS`. An instant named
            `parallel mode MODE in NUMBER stages` tells the mode.
        names: the names of the recording.
        world_size: number of ranks of the job.
    """
    marks = instants.filter(pl.col("category") == Category.COMMUNICATION).sort("time_ns")["name"]
    modes = [match for text in names.gather(marks) if (match := _PARALLEL.fullmatch(text))]
    if not modes or modes[-1]["mode"] not in ("data_parallel", "stand_alone"):
        return {}  # in the other modes, MindSpore chooses how to divide tensors
    stages = int(modes[-1]["stages"])
    parts = world_size // stages if modes[-1]["mode"] == "data_parallel" else 1
    if stages * parts != world_size:
        return {}  # the numbers contradict each other, for example if the ranks do not know each other
    return {
        "world_size": world_size,
        "tensor_model_parallel_size": 1,
        "pipeline_model_parallel_size": stages,
        "data_parallel_size": parts,
    }


def _range(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)
