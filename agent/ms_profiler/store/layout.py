"""Names of the directories and files of a result.

    {output_path}/{host}_{pid}_{UTC time}_ascend_ms/
        profiler_info_{rank}.json  profiler_metadata.json  summary.json
        ASCEND_PROFILER_OUTPUT/    files for other tools; a long timeline continues in msprof_slice_{number}.json
        rank.json                  in a job of several ranks, for the comparison of all ranks
        KINETO/                    the timeline in the form of PyTorch's profiler, if requested
        TABLES/                    tables as Parquet, if requested
        FRAMEWORK/                 the store: raw data, which the analysis does not remove
            run_info.json          options, rank, hooks, reasons, state of the run
            account                the disk space that all processes use, in the format of native/account.h
            process_{pid}/         one per process that recorded: the job and its fork children
                process_info.json
                exit_status        the exit status of the process
                000000.seg ...     segments: the files with records, in the format of native/file_format.h
                kernels/000000/    files of MindSpore's kernel recorder, one folder each time that it ran
                pipelines/000000/  files of MindSpore's dataset profiler, one folder each time that it ran
                networks/000000.json   one per network: its modules and the sizes of their parameters
                graphs/000000.graph    one per compiled graph: a line of JSON, then the framework's description
                tapes/000000.json      nodes of autograd before some backward passes
                places/000000.json     addresses of parameters, gradients and states of optimizers after some steps
                strategy.json          how the job is divided among its ranks, if requested
        logs/

Directories are 0750, files 0640, as MindSpore's own profiler makes them.
"""

import posix
import re
from time import gmtime, strftime
from typing import Final

from ms_profiler import paths

DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640

SUFFIX: Final = "_ascend_ms"
#: suffix of the results of torch_npu's profiler, which have the same layout
TORCH_SUFFIX: Final = "_ascend_pt"
FRAMEWORK: Final = "FRAMEWORK"
OUTPUT: Final = "ASCEND_PROFILER_OUTPUT"
KINETO: Final = "KINETO"
TABLES: Final = "TABLES"
LOGS: Final = "logs"

RUN_INFO: Final = "run_info.json"
PROCESS_INFO: Final = "process_info.json"
EXIT_STATUS: Final = "exit_status"
#: file that a process maps into memory, so that its children can find its folder (in /proc)
ANNOUNCED: Final = "announced"
ACCOUNT: Final = "account"
SUMMARY: Final = "summary.json"
RANK: Final = "rank.json"
REPORT: Final = "report.html"
METADATA: Final = "profiler_metadata.json"
TRACE_VIEW: Final = "trace_view.json"
PERFETTO_TRACE: Final = "trace.pftrace"
OVERLAP_ANALYSIS: Final = "overlap_analysis.json"
STEP_TRACE_TIME: Final = "step_trace_time.csv"
DATASET: Final = "dataset.csv"
KERNEL_DETAILS: Final = "kernel_details.csv"
MEMORY_RECORD: Final = "memory_record.csv"
HOST_METRICS: Final = "host_metrics.csv"
HOST_THREADS: Final = "host_threads.csv"
OPERATOR_MEMORY: Final = "operator_memory.csv"
MODULE_MEMORY: Final = "npu_module_mem.csv"
OP_STATISTIC: Final = "op_statistic.csv"
API_STATISTIC: Final = "api_statistic.csv"
OPERATOR_DETAILS: Final = "operator_details.csv"
#: files with Python stacks: in the form that flame graph tools read, and in the form of speedscope
STACKS_FOLDED: Final = "python_stacks.folded"
STACKS_SPEEDSCOPE: Final = "python_stacks.speedscope.json"
COMMUNICATION: Final = "communication.json"
PARALLEL_STRATEGY: Final = "parallel_strategy.json"
COMMUNICATION_MATRIX: Final = "communication_matrix.json"
COMMUNICATION_DB: Final = "communication_analyzer.db"
#: name under which torch_npu writes the file that MindSpore calls `COMMUNICATION_DB`
TORCH_COMMUNICATION_DB: Final = "analysis.db"
KERNELS: Final = "kernels"
#: begin of the name of the file that MindSpore writes with the records of its memory allocator; the rank follows
MEMORY_PREFIX: Final = "cpu_ms_memory_record_"
PIPELINES: Final = "pipelines"
GRAPHS: Final = "graphs"
NETWORKS: Final = "networks"
TAPES: Final = "tapes"
PLACES: Final = "places"
STRATEGY: Final = "strategy.json"

#: the files of the analysis may take 1 / ANALYSIS_SHARE of `max_disk`; the recorded data may take the rest
ANALYSIS_SHARE: Final = 4

_SEGMENT = re.compile(r"^\d{6,}\.seg$")
_WINDOW = re.compile(r"^\d{6,}$")
_GRAPH = re.compile(r"^\d{6,}\.graph$")
_NETWORK = re.compile(r"^\d{6,}\.json$")
_TAPE = re.compile(r"^\d{6,}\.json$")
_PROCESS = re.compile(r"^process_\d+$")


def result_name(host: str, pid: int, wall_seconds: float) -> str:
    """Return the name of a result directory: `{host}_{pid}_{UTC time to the millisecond}_ascend_ms`."""
    stamp = strftime("%Y%m%d%H%M%S", gmtime(wall_seconds))
    milliseconds = int(wall_seconds * 1000) % 1000
    return f"{host}_{pid}_{stamp}{milliseconds:03d}{SUFFIX}"


def profiler_info(rank: int) -> str:
    """Return the name of the file `profiler_info_{rank}.json`, from which other tools read the rank of a result."""
    return f"profiler_info_{rank}.json"


def trace_slice(number: int) -> str:
    """Return the name of the file with a later section of a long timeline; MindStudio Insight looks for this name."""
    return f"msprof_slice_{number}.json"


def table(name: str) -> str:
    """Return the name of the Parquet file that holds a table."""
    return f"{name}.parquet"


def database(rank: int, *, torch: bool) -> str:
    """Return the name of a rank's database, as MindSpore's profiler or, with `torch`, torch_npu's profiler has it."""
    return f"ascend_{'pytorch' if torch else 'mindspore'}_profiler_{rank}.db"


def kineto_trace(rank: int) -> str:
    """Return the name of the file with the timeline in the form of Kineto, PyTorch's own recorder."""
    return f"kineto_trace_{rank}.json"


def pipeline_raw(rank: int) -> str:
    """Return the name of the file with a table of all samples of the dataset pipelines."""
    return f"minddata_pipeline_raw_{rank}.csv"


def pipeline_summary(rank: int, form: str) -> str:
    """Return the name of the file with the summary of the dataset pipelines; `form` is "csv" or "json"."""
    return f"minddata_pipeline_summary_{rank}.{form}"


def framework_dir(result: str) -> str:
    """Return the folder of a result directory that holds the recorded raw data (the store)."""
    return paths.join(result, FRAMEWORK)


def output_dir(result: str) -> str:
    """Return the folder of a result directory that holds the files for other tools."""
    return paths.join(result, OUTPUT)


def run_info_path(result: str) -> str:
    """Return the path of `run_info.json`, the record of the run, in a result directory."""
    return paths.join(result, FRAMEWORK, RUN_INFO)


def recorded_share(most: int) -> int:
    """Return how many bytes the recorded data may take, if the whole result may take `most` bytes."""
    return most - most // ANALYSIS_SHARE


def account_path(result: str) -> str:
    """Return the path of the file `account`, which counts the disk space of a result."""
    return paths.join(result, FRAMEWORK, ACCOUNT)


def process_dir(result: str, pid: int) -> str:
    """Return the folder into which a process of the run records."""
    return paths.join(result, FRAMEWORK, f"process_{pid}")


def process_dirs(result: str) -> list[str]:
    """Return the folders of all processes that recorded, sorted by name."""
    framework = framework_dir(result)
    try:
        names = sorted(posix.listdir(framework))
    except OSError:
        return []
    return [paths.join(framework, name) for name in names if _PROCESS.match(name)]


def size_below(folder: str) -> int:
    """Return the number of bytes of all files below a folder."""
    size = 0
    for place, names in paths.files(folder):
        for name in names:
            try:
                size += posix.lstat(paths.join(place, name)).st_size
            except OSError:
                pass  # another process of the job has removed the file
    return size


def segment_name(index: int) -> str:
    """Return the name of segment `index` of a process."""
    return f"{index:06d}.seg"


def segment_paths(folder: str) -> list[str]:
    """Return the segment files of a process, oldest first."""
    names = sorted((name for name in posix.listdir(folder) if _SEGMENT.match(name)), key=lambda name: int(name[:-4]))
    return [paths.join(folder, name) for name in names]


def kernels_dir(folder: str) -> str:
    """Return the folder for the files of MindSpore's kernel recorder; `folder` is a `process_{pid}` directory."""
    return paths.join(folder, KERNELS)


def window_dir(folder: str, index: int) -> str:
    """Return the folder for the files of one run of MindSpore's kernel recorder; `index` counts the runs from 0."""
    return paths.join(folder, KERNELS, f"{index:06d}")


def pipeline_dir(folder: str, index: int) -> str:
    """Return the folder for the files of one run of MindSpore's dataset profiler; `index` counts the runs from 0."""
    return paths.join(folder, PIPELINES, f"{index:06d}")


def windows(folder: str) -> list[tuple[int, str]]:
    """Return (number, folder) for each run of MindSpore's kernel recorder in a process, oldest first."""
    try:
        names = posix.listdir(kernels_dir(folder))
    except OSError:
        return []
    return [(index, window_dir(folder, index)) for index in sorted(int(name) for name in names if _WINDOW.match(name))]


def graph_path(folder: str, index: int) -> str:
    """Return the path of the description of a process's compiled graph; `index` counts from 0."""
    return paths.join(folder, GRAPHS, f"{index:06d}.graph")


def graphs(folder: str) -> list[str]:
    """Return the paths of the descriptions of a process's compiled graphs, oldest first."""
    return _numbered(paths.join(folder, GRAPHS), _GRAPH)


def tape_path(folder: str, index: int) -> str:
    """Return the path of a process's file with the autograd nodes of a backward pass; `index` counts from 0."""
    return paths.join(folder, TAPES, f"{index:06d}.json")


def tapes(folder: str) -> list[str]:
    """Return the paths of a process's files with autograd nodes, one for each noted backward pass, oldest first."""
    return _numbered(paths.join(folder, TAPES), _TAPE)


def place_path(folder: str, index: int) -> str:
    """Return the path of a process's file with the addresses of tensors after a step; `index` counts from 0."""
    return paths.join(folder, PLACES, f"{index:06d}.json")


def places(folder: str) -> list[str]:
    """Return the paths of a process's files with addresses of tensors, oldest first."""
    return _numbered(paths.join(folder, PLACES), _TAPE)


def strategy_path(folder: str) -> str:
    """Return the path of the file in which a process describes how the job is divided among ranks."""
    return paths.join(folder, STRATEGY)


def _numbered(folder: str, pattern: re.Pattern[str]) -> list[str]:
    try:
        names = posix.listdir(folder)
    except OSError:
        return []
    return [paths.join(folder, name) for name in sorted(filter(pattern.match, names))]


def network_path(folder: str, index: int) -> str:
    """Return the path of the structure of a network that a process called; `index` counts from 0."""
    return paths.join(folder, NETWORKS, f"{index:06d}.json")


def networks(folder: str) -> list[str]:
    """Return the paths of the structures of the networks that a process called, oldest first."""
    return _numbered(paths.join(folder, NETWORKS), _NETWORK)
