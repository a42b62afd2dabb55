"""Properties of the interfaces that report the records of a device: NVIDIA's CUPTI and Ascend's msPTI."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ms_profiler.analysis.model.tables import Form
from ms_profiler.store.device_format import Source


@dataclass(frozen=True)
class DeviceSource:
    """Properties of an interface's records.

    Attributes:
        name: the name of the interface.
        form: the source of the device data; it selects the formulas for the times of a step.
        activity: the kind of device that the interface records.
        level: the `level` of the driver's calls in `tables.DRIVER_CALLS`.
        core: the core, in the tables, of a kernel whose record names no core.
        cores: name of a core in the interface's records, without `core_begin` -> its name in the tables.
        core_begin: the prefix that all names of cores have in the interface's records.
        exchange_core: the core of an exchange with other ranks.
        exchanges: the pattern of the names of exchange kernels.
        in_database: whether the database can hold the interface's kernels.
    """

    name: str
    form: Form
    activity: str
    level: str
    core: str
    exchange_core: str
    exchanges: str
    in_database: bool
    reports_reads: bool
    cores: Mapping[str, str] = field(default_factory=dict)
    core_begin: str = ""


SOURCES = {
    Source.CUPTI: DeviceSource(
        name="CUPTI",
        form=Form.CUPTI,
        activity="GPU",
        level="cuda",
        core="GPU",
        exchange_core="GPU",
        exchanges=r"(?i)^(nccl|rccl|oneccl)|ncclKernel|ncclDevKernel",
        in_database=False,
        reports_reads=True,
    ),
    Source.MSPTI: DeviceSource(
        name="msPTI",
        form=Form.MSPTI,
        activity="NPU",
        level="cann",
        core="N/A",
        exchange_core="HCCL",
        exchanges=r"^hcom_",
        in_database=True,
        reports_reads=False,
        cores={"AICORE": "AI_CORE", "AIVEC": "AI_VECTOR_CORE", "AICPU": "AI_CPU"},
        core_begin="KERNEL_",
    ),
}
