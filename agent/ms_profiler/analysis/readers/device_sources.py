"""What the tables say of records, by whose interface told them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ms_profiler.analysis.model.tables import Form
from ms_profiler.store.device_format import Source


@dataclass(frozen=True)
class DeviceSource:
    """How the records of an interface are read.

    Attributes:
        name: of the interface.
        form: whose formulas hold for a step.
        activity: what it records of.
        level: of the calls.
        core: what ran a kernel of which nothing is told; null in the table where it is empty.
        cores: what a kernel tells of what ran it, in the words of that interface -> as the tables have it.
        core_begin: stands before all of these words.
        exchange_core: what ran an exchange with other ranks.
        exchanges: fits the names of kernels that are such exchanges.
        in_database: the database has a place for its kernels.
    """

    name: str
    form: Form
    activity: str
    level: str
    core: str
    exchange_core: str
    exchanges: str
    in_database: bool
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
        cores={"AICORE": "AI_CORE", "AIVEC": "AI_VECTOR_CORE", "AICPU": "AI_CPU"},
        core_begin="KERNEL_",
    ),
}
