"""Describe the tables and columns of the databases that a result may have (`export_type` `db`)."""

from typing import Final

from ms_profiler.analysis.catalogue.result_file import ResultFile
from ms_profiler.analysis.metrics import transfers
from ms_profiler.analysis.writers import database_schema as schema
from ms_profiler.store import layout

RUN: Final = "ascend_{framework}_profiler_{rank}.db"
_NS: Final = "ns since the epoch"
_TEXT: Final = "a number of `STRING_IDS`"
_NONE: Final = f"{schema.NONE}: none"
_NOT_KNOWN: Final = f"always N/A, {_TEXT}"

#: the meaning of a row of each table in the database of the run
ROWS: Final = (
    (schema.TASK, "A task of the device, or a kernel on the processor."),
    (schema.COMPUTE_TASK_INFO, "A task that computed."),
    (schema.COMMUNICATION_OP, "An exchange with other ranks."),
    (schema.COMMUNICATION_TASK_INFO, "A part of an exchange."),
    (schema.STEP_TIME, "A recorded step."),
    (schema.PYTORCH_API, "A call of the framework on the host."),
    (schema.CONNECTION_IDS, "The connection of a call of the framework with a task."),
    (schema.CANN_API, "A call of the device's driver on the host."),
    (schema.MEMORY_RECORD, "The memory of the framework's allocator after a change."),
    (schema.RANK_DEVICE_MAP, "The device of the rank."),
    (schema.HOST_INFO, "The machine."),
    (schema.SESSION_TIME_INFO, "The recorded time."),
    (schema.META_DATA, "A fact about the database: version of the schema, members of groups, ms-profiler's mark."),
    (schema.STRING_IDS, "A text."),
    (schema.ENUM_API_TYPE, "A level of calls."),
    (schema.ENUM_HCCL_DATA_TYPE, "A type of data."),
    (schema.ENUM_HCCL_TRANSPORT_TYPE, "A kind of transport."),
    (schema.ENUM_HCCL_LINK_TYPE, "A kind of link."),
)
#: the meaning of a row of each table in the database of exchanges and steps, `layout.COMMUNICATION_DB`
EXCHANGED: Final = (
    (schema.STEP_TRACE_TIME, "A step, as in `step_trace_time.csv`; times are microseconds."),
    (schema.COMMUNICATION_TIME, "An exchange in a step, as in `communication.json`."),
    (schema.COMMUNICATION_BANDWIDTH, "The packets of one size that an exchange sent over one kind of link."),
    (
        schema.TORCH_MATRIX,
        "A link of an exchange. Only torch_npu's form has `step`, `type` and `op_name`; there, a row is one "
        "exchange, or the sum of alike exchanges.",
    ),
)
#: the meaning of a column, by its name
COLUMNS: Final = {
    "startNs": f"begin, {_NS}",
    "endNs": f"end, {_NS}",
    "startTimeNs": f"begin of the recording, {_NS}",
    "endTimeNs": f"end of the recording, {_NS}",
    "deviceId": "number of the device",
    "connectionId": f"number of the launching call in `CANN_API`, or in `PYTORCH_API` by `CONNECTION_IDS`; {_NONE}",
    "globalTaskId": "number of the task",
    "globalPid": "pid",
    "taskType": f"kind of core, or kind of a part of an exchange, {_TEXT}",
    "contextId": f"always {_NONE}",
    "streamId": "number of the stream",
    "taskId": "number of the task, as `globalTaskId`",
    "modelId": f"always {_NONE}",
    "blockDim": "always 0",
    "mixBlockDim": "always 0",
    "opType": f"type of the operator, {_TEXT}",
    "inputFormats": _NOT_KNOWN,
    "inputDataTypes": _NOT_KNOWN,
    "inputDtypes": "always NULL",
    "inputShapes": f"shapes of the inputs, {_TEXT}",
    "outputFormats": _NOT_KNOWN,
    "outputDataTypes": _NOT_KNOWN,
    "outputShapes": _NOT_KNOWN,
    "attrInfo": _NOT_KNOWN,
    "opName": f"name of the exchange, {_TEXT}",
    "groupName": f"name of the group of ranks, {_TEXT}",
    "opId": "number of the exchange in `COMMUNICATION_OP`",
    "relay": "always 0",
    "retry": "always 0",
    "dataType": "number of `ENUM_HCCL_DATA_TYPE`: unknown or none",
    "algType": _NOT_KNOWN,
    "count": "number of the packets; in `COMMUNICATION_OP` always NULL",
    "planeId": "number of the plane of links",
    "notifyId": "always NULL",
    "rdmaType": f"always {schema.NO_TYPE}",
    "srcRank": "rank that sends",
    "dstRank": "rank that receives",
    "transportType": "a number of `ENUM_HCCL_TRANSPORT_TYPE`",
    "linkType": "a number of `ENUM_HCCL_LINK_TYPE`",
    "size": "bytes",
    "globalTid": "pid in the upper 32 bits, number of the thread in the lower 32 bits",
    "sequenceNumber": "always NULL",
    "fwdThreadId": "always NULL",
    "callchainId": "always NULL",
    "component": f"the allocator, {_TEXT}",
    "timestamp": f"time of the change, {_NS}",
    "totalAllocated": "bytes in use by tensors",
    "totalReserved": "bytes reserved by the allocator",
    "totalActive": "bytes in use or still needed by a stream",
    "streamPtr": "the stream",
    "rankId": "number of the rank",
    "hostUid": "CRC-32 of the name",
    "hostName": "name of the machine",
    "value": "the value, or the text",
    "hccl_op_name": "name of the exchange",
    "group_name": "number of the group of ranks",
    "start_timestamp": "begin, us since the epoch",
    "elapse_time": "duration, ms",
    "transit_time": "time in which bytes moved, ms",
    "wait_time": "time in which the rank waited for another rank, ms",
    "synchronization_time": "wait before the first bytes moved, ms",
    "idle_time": "duration without transit and wait, ms",
    "step": "name or number of the step",
    "transport_type": "kind of the link",
    "transit_size": "megabytes of 10^6 bytes",
    "bandwidth": "gigabytes a second",
    "large_packet_ratio": f"share of the packets of more than {transfers.LARGE_MB} megabytes",
    "package_size": "size of a packet, megabytes",
    "total_duration": "duration of these packets, ms",
    "src_rank": "rank that sends",
    "dst_rank": "rank that receives",
    "op_name": "name of the exchange",
    "computing": "`Computing`",
    "communication_not_overlapped": "`Communication(Not Overlapped)`",
    "overlapped": "`Overlapped`",
    "communication": "`Communication`",
    "free": "`Free`",
    "stage": "`Stage`",
    "bubble": "`Bubble`",
    "communication_not_overlapped_and_exclude_receive": "`Communication(Not Overlapped and Exclude Receive)`",
    "preparing": "`Preparing`",
}
#: (table, column) -> meaning, for a column whose meaning depends on its table
_OWN: Final = {
    (schema.STEP_TIME.name, "id"): "number of the step",
    (schema.CONNECTION_IDS.name, "id"): "`connectionId` of the call of the framework",
    (schema.CONNECTION_IDS.name, "connectionId"): "`connectionId` of the task",
    (schema.CANN_API.name, "type"): "level of the call, a number of `ENUM_API_TYPE`",
    (schema.PYTORCH_API.name, "type"): "level of the call, a number of `ENUM_API_TYPE`",
    (schema.META_DATA.name, "name"): "name of the fact",
    (schema.COMMUNICATION_TIME.name, "type"): "`p2p` or `collective`",
    (schema.COMMUNICATION_BANDWIDTH.name, "type"): "`p2p` or `collective`",
    (schema.TORCH_MATRIX.name, "type"): "`p2p` or `collective`",
}


def _meaning(table: schema.Table, column: str) -> str:
    known = _OWN.get((table.name, column)) or COLUMNS.get(column)
    if known is None:
        named = table.columns[column] == schema.TEXT_ID
        known = {"id": "number of the row", "name": f"name, {_TEXT}" if named else "name"}[column]
    return known


def _described(file: str, rows: tuple[tuple[schema.Table, str], ...]) -> list[ResultFile]:
    return [
        ResultFile(f"{file}, {table.name}", meaning, {name: _meaning(table, name) for name in table.columns})
        for table, meaning in rows
    ]


DATABASE_FILES: Final = (*_described(RUN, ROWS), *_described(layout.COMMUNICATION_DB, EXCHANGED))
