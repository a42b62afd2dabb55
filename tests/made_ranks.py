"""Make a job of many ranks from two real results, with more ranks and steps, varied times and chosen groups."""

import copy
import csv
import json

FOLDER = "ASCEND_PROFILER_OUTPUT"


def make(source, target, ranks, steps, *, slow=(), factor=1.5, missing=(), link=(), pipelines=1, tensors=1):
    """Write the results of a job whose ranks are copies of two real results.

    Args:
        source: directory with the results `rank0_ascend_pt` and `rank1_ascend_pt`.
        target: directory that receives one result for each rank.
        ranks: number of ranks.
        steps: number of steps.
        slow: ranks that compute for longer.
        factor: factor by which these ranks compute for longer.
        missing: ranks without a result.
        link: source and target of a link that takes four times as long.
        pipelines: number of pipeline stages, which exchange messages.
        tensors: number of ranks that share a tensor.
    """
    known = [_read(source / f"rank{number}_ascend_pt") for number in range(2)]
    data = ranks // pipelines // tensors
    for rank in range(ranks):
        if rank in missing:
            continue
        communication, matrix, (header, row) = copy.deepcopy(known[rank % 2])
        path = target / f"host_{rank}_20260101000000000_ascend_pt"
        (path / FOLDER).mkdir(parents=True)
        (path / f"profiler_info_{rank}.json").write_text("{}")
        if pipelines > 1:
            metadata = _metadata(rank, ranks, pipelines, tensors, data)
            (path / "profiler_metadata.json").write_text(json.dumps(metadata))
        (kinds,), (links,) = communication.values(), matrix.values()
        own, times = {}, []
        for step in range(steps):
            vary = 1 + ((rank * 7919 + step * 104729) % 1009) / 1009 * 0.02
            exchanges = _varied(kinds, vary, rank, ranks, pipelines)
            own[f"step{50 + step}"] = exchanges, _placed(links, rank, vary, link)
            times.append([50 + step, *_times(header, row, vary, factor if rank in slow else 1.0)])
        for place, name in enumerate(("communication", "communication_matrix")):
            content = {step: parts[place] for step, parts in own.items()}
            (path / FOLDER / f"{name}.json").write_text(json.dumps(content))
        with open(path / FOLDER / "step_trace_time.csv", "w", newline="") as stream:
            csv.writer(stream).writerows([header, *times])


def _read(base):
    folder = base / FOLDER
    with open(folder / "step_trace_time.csv", newline="") as stream:
        header, row = list(csv.reader(stream))
    texts = [json.loads((folder / name).read_text()) for name in ("communication.json", "communication_matrix.json")]
    return *texts, (header, row)


def _varied(kinds, vary, rank, ranks, pipelines):
    """Return the exchanges of a step; with several pipeline stages, add a message to another stage."""
    found = copy.deepcopy(kinds)
    for entry in found["collective"].values():
        times = entry["Communication Time Info"]
        for key in times:
            if key.endswith("(ms)"):
                times[key] *= vary
    if pipelines > 1:
        name = next(name for name in found["collective"] if not name.startswith("Total"))
        first = rank % (ranks // pipelines)
        message = copy.deepcopy(found["collective"][name])
        found["p2p"] = {f"hcom_send__{first:03d}_0_1@{_number(f'pp{first}')}": message, "Total Op Info": message}
        stage = rank // (ranks // pipelines)
        found["collective"] = {
            f"{name.partition('@')[0]}@{_number(f'dp{stage}')}": entry
            for name, entry in found["collective"].items()
            if not name.startswith("Total")
        }
    return found


def _placed(kinds, rank, vary, slow):
    """Return the links of a step with the rank's own number in place of the copied rank's."""
    found = copy.deepcopy(kinds)
    for name, links in found["collective"].items():
        moved = {}
        for link, values in links.items():
            source, target = (str(rank) if int(end) == rank % 2 else end for end in link.split("-"))
            longer = 4 if (int(source), int(target)) == tuple(slow) else 1
            moved[f"{source}-{target}"] = {**values, "Transit Time(ms)": values["Transit Time(ms)"] * vary * longer}
        found["collective"][name] = moved
    return found


def _times(header, row, vary, factor):
    """Return the times of a step whose computing is multiplied by a factor; the step is longer by the added time."""
    known = dict(zip(header[1:], map(float, row[1:]), strict=True))
    more = known["Computing"] * vary * (factor - 1)
    found = {name: value * vary for name, value in known.items()}
    found["Computing"] += more
    found["Stage"] += more
    return [repr(value) for value in found.values()]


def _metadata(rank, ranks, pipelines, tensors, data):
    part = ranks // pipelines
    first = rank % part
    members = [first + stage * part for stage in range(pipelines)]
    return {
        "parallel_group_info": {
            f"pp{first}": {"group_name": "pp", "group_rank": rank // part, "global_ranks": members}
        },
        "distributed_args": {
            "world_size": ranks,
            "tensor_model_parallel_size": tensors,
            "pipeline_model_parallel_size": pipelines,
            "data_parallel_size": data,
        },
    }


def _number(name):
    high = low = 0
    for character in name:
        high, low = (high * 29 + ord(character)) % 2**32, (low * 131 + ord(character)) % 2**32
    return str(high << 32 | low)
