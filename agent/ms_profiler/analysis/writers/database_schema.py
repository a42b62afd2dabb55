"""The tables of the result database: names, columns and SQL types as Ascend's profilers write them.

Source: databases of torch_npu on NPUs, and the statements by which msprof-analyze 26.2 reads them. Times are
nanoseconds since the epoch, sizes are bytes. A column of the type `TEXT_ID` holds an id of STRING_IDS. `globalTid` has
the pid in its upper 32 bits, and the thread's native id in its lower 32 bits. Unknown values are NULL, or the text N/A
where a reader joins STRING_IDS.
"""

import sqlite3
from dataclasses import dataclass
from typing import Final

import polars as pl

#: type of a column of texts: the database holds the id of each text in STRING_IDS
TEXT_ID: Final = "INTEGER /* STRING_IDS.id */"
_KEY: Final = "INTEGER PRIMARY KEY"
_NUMBER: Final = "NUMERIC"


@dataclass(frozen=True)
class Table:
    """One table of the database.

    Attributes:
        name: the name that readers know.
        columns: name -> SQL type. Tools that read `SELECT *` rely on the order.
        index: columns of the table's index, by which readers join the table.
    """

    name: str
    columns: dict[str, str]
    index: tuple[str, ...] = ()

    def create(self, connection: sqlite3.Connection, rows: pl.DataFrame) -> None:
        """Make the table with its rows.

        Args:
            connection: a connection with an open transaction.
            rows: the rows, with some of the columns. The remaining columns are NULL.
        """
        columns = ", ".join(f"{name} {kind.partition(' /*')[0]}" for name, kind in self.columns.items())
        connection.execute(f"CREATE TABLE {self.name} ({columns})")
        marks = ", ".join("?" * rows.width)
        connection.executemany(
            f"INSERT INTO {self.name} ({', '.join(rows.columns)}) VALUES ({marks})", rows.iter_rows()
        )
        if self.index:
            connection.execute(f"CREATE INDEX {self.name}_index ON {self.name} ({', '.join(self.index)})")


def _integers(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "INTEGER")


def _texts(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, TEXT_ID)


#: a row for each kernel, on a device or on a CPU, and for each part of an exchange
TASK: Final = Table(
    "TASK",
    {
        **_integers("startNs", "endNs", "deviceId"),
        "connectionId": "INTEGER",  # the driver's call in CANN_API; CONNECTION_IDS leads to the framework's call
        **_integers("globalTaskId", "globalPid"),
        "taskType": TEXT_ID,
        **_integers("contextId", "streamId", "taskId", "modelId"),
    },
    ("startNs", "globalTaskId"),
)
#: a row for each task that computed
COMPUTE_TASK_INFO: Final = Table(
    "COMPUTE_TASK_INFO",
    {
        "name": TEXT_ID,
        "globalTaskId": _KEY,
        **_integers("blockDim", "mixBlockDim"),
        **_texts("taskType", "opType", "inputFormats", "inputDataTypes", "inputShapes"),
        **_texts("outputFormats", "outputDataTypes", "outputShapes", "attrInfo"),
    },
)
#: a row for each exchange with other ranks
COMMUNICATION_OP: Final = Table(
    "COMMUNICATION_OP",
    {
        "opName": TEXT_ID,
        **_integers("startNs", "endNs", "connectionId"),
        "groupName": TEXT_ID,
        "opId": _KEY,
        **_integers("relay", "retry", "dataType"),
        "algType": TEXT_ID,
        "count": _NUMBER,
        "opType": TEXT_ID,
    },
)
#: a row for each transfer or other task that is part of an exchange
COMMUNICATION_TASK_INFO: Final = Table(
    "COMMUNICATION_TASK_INFO",
    {
        "name": TEXT_ID,  # name of the exchange
        "globalTaskId": "INTEGER",
        "taskType": TEXT_ID,
        "planeId": "INTEGER",
        "groupName": TEXT_ID,
        **_integers("notifyId", "rdmaType", "srcRank", "dstRank", "transportType", "size", "dataType", "linkType"),
        "opId": "INTEGER",  # the exchange in COMMUNICATION_OP
    },
    ("globalTaskId",),
)
#: a row for each recorded step
STEP_TIME: Final = Table("STEP_TIME", _integers("id", "startNs", "endNs"))
#: a row for each call of the framework on the host
PYTORCH_API: Final = Table(
    "PYTORCH_API",
    {
        "startNs": "TEXT",
        "endNs": "TEXT",
        **_integers("globalTid", "connectionId"),  # connectionId: the id in CONNECTION_IDS
        "name": TEXT_ID,
        **_integers("sequenceNumber", "fwdThreadId"),
        **_texts("inputDtypes", "inputShapes"),
        **_integers("callchainId", "type"),
    },
    ("connectionId",),
)
#: a row for each task that a framework's call launched: `id` belongs to the call, `connectionId` to the task
CONNECTION_IDS: Final = Table("CONNECTION_IDS", _integers("id", "connectionId"), ("connectionId",))
#: a row for each call of the device's driver on the host
CANN_API: Final = Table(
    "CANN_API",
    {**_integers("startNs", "endNs", "type", "globalTid"), "connectionId": _KEY, "name": TEXT_ID},
)
#: a row for each change of the memory that the framework's allocator holds
MEMORY_RECORD: Final = Table(
    "MEMORY_RECORD",
    {
        "component": TEXT_ID,
        **_integers("timestamp", "totalAllocated", "totalReserved", "totalActive", "streamPtr", "deviceId"),
    },
)
RANK_DEVICE_MAP: Final = Table("RANK_DEVICE_MAP", _integers("rankId", "deviceId"))
HOST_INFO: Final = Table("HOST_INFO", {"hostUid": "TEXT", "hostName": "TEXT"})
SESSION_TIME_INFO: Final = Table("SESSION_TIME_INFO", _integers("startTimeNs", "endTimeNs"))
META_DATA: Final = Table("META_DATA", {"name": "TEXT", "value": "TEXT"})
STRING_IDS: Final = Table("STRING_IDS", {"id": _KEY, "value": "TEXT"})
ENUM_API_TYPE: Final = Table("ENUM_API_TYPE", {"id": _KEY, "name": "TEXT"})
ENUM_HCCL_DATA_TYPE: Final = Table("ENUM_HCCL_DATA_TYPE", {"id": _KEY, "name": "TEXT"})
ENUM_HCCL_TRANSPORT_TYPE: Final = Table("ENUM_HCCL_TRANSPORT_TYPE", {"id": _KEY, "name": "TEXT"})
ENUM_HCCL_LINK_TYPE: Final = Table("ENUM_HCCL_LINK_TYPE", {"id": _KEY, "name": "TEXT"})

#: level of a driver call -> its id in ENUM_API_TYPE; the framework's calls have the id `OPERATOR`
API_TYPES: Final = {"runtime": 5000, "hccl": 5500, "node": 10000, "model": 15000, "acl": 20000, "op": 50001}
OPERATOR: Final = API_TYPES["op"]
#: ids of an unknown value and of a missing value, in the enumerations of data types, transports and links
UNKNOWN_TYPE: Final = 65534
NO_TYPE: Final = 65535
#: value of a missing rank, connection or model; not NULL, because readers sort by these columns
NONE: Final = 2**32 - 1
_NEITHER: Final = {UNKNOWN_TYPE: "N/A", NO_TYPE: "INVALID_TYPE"}
TRANSPORT_TYPES: Final = {**dict(enumerate(("SDMA", "RDMA", "LOCAL"))), **_NEITHER}
LINK_TYPES: Final = {
    **dict(enumerate(("ON_CHIP", "HCCS", "PCIE", "ROCE", "SIO", "HCCS_SW", "STANDARD_ROCE", "RESERVED"))),
    **_NEITHER,
}
DATA_TYPES: Final = {
    **dict(enumerate(("INT8", "INT16", "INT32", "FP16", "FP32", "INT64", "UINT64", "UINT8", "UINT16", "UINT32"))),
    10: "FP64",
    11: "BFP16",
    12: "INT128",
    **_NEITHER,
}

_EXCHANGE: Final = {"hccl_op_name": "TEXT", "group_name": "TEXT"}
_PLACE: Final = {"step": "TEXT", "type": "TEXT"}


def _numbers(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, _NUMBER)


#: a row for each exchange and step; `start_timestamp` in microseconds since the epoch, other times in milliseconds
COMMUNICATION_TIME: Final = Table(
    "CommAnalyzerTime",
    {
        **_EXCHANGE,
        **_numbers("start_timestamp", "elapse_time", "transit_time", "wait_time", "synchronization_time", "idle_time"),
        **_PLACE,
    },
)
#: a row for each exchange, transport and packet size; units are megabytes, milliseconds and gigabytes a second
COMMUNICATION_BANDWIDTH: Final = Table(
    "CommAnalyzerBandwidth",
    {
        **_EXCHANGE,
        "transport_type": "TEXT",
        **_numbers("transit_size", "transit_time", "bandwidth", "large_packet_ratio"),
        **_numbers("package_size", "count", "total_duration"),
        **_PLACE,
    },
)
#: a row for each exchange and link between two ranks; readers of MindSpore's results add the rows up themselves
COMMUNICATION_MATRIX: Final = Table(
    "CommAnalyzerMatrix",
    {
        **_EXCHANGE,
        **dict.fromkeys(("src_rank", "dst_rank", "transport_type"), "TEXT"),
        **_numbers("transit_size", "transit_time", "bandwidth"),
    },
)
#: a row for each entry of `communication_matrix.json` and each of its links, as torch_npu writes them
TORCH_MATRIX: Final = Table(COMMUNICATION_MATRIX.name, {**COMMUNICATION_MATRIX.columns, **_PLACE, "op_name": "TEXT"})
#: the rows of `step_trace_time.csv`, in microseconds
STEP_TRACE_TIME: Final = Table(
    "StepTraceTime",
    {
        "step": "TEXT",
        **_numbers("computing", "communication_not_overlapped", "overlapped", "communication", "free", "stage"),
        **_numbers("bubble", "communication_not_overlapped_and_exclude_receive", "preparing"),
    },
)
