"""profiler_info_{rank}.json: other tools read the rank from the file's name, and a few facts from the content.

Keys are those of MindSpore's public profiler documents. Values that only a device's driver knows are empty.
"""

import json
import os
import re
from typing import BinaryIO, Final

from ms_profiler.analysis.metrics.measures import Measures
from ms_profiler.store import layout

_NAME: Final = re.compile(r"profiler_info_\d+\.json")


def path(measures: Measures) -> str:
    """Return the path of the file, relative to the result directory."""
    return layout.profiler_info(measures.recording.info.rank)


def applies(measures: Measures) -> bool:
    """Return True, because the file is always written."""
    return True


def write(measures: Measures, stream: BinaryIO) -> None:
    """Write the file, and remove a file that an earlier analysis wrote for another rank.

    The rank may have changed, because the framework may assign it after the earlier analysis.
    """
    directory, info = measures.target, measures.recording.info
    for name in os.listdir(directory):
        if _NAME.fullmatch(name) and name != path(measures):
            os.unlink(os.path.join(directory, name))
    mindspore = info.framework.get("name") == "mindspore"
    content = {
        "profiler_parameters": {"is_set_schedule": bool(info.options.get("schedule")), **info.options},
        "ms_profiler_info": {"rank_id": str(info.rank), "device_id": str(info.device_id)},
        "cann_profiler_info": {},
        "analysis_cost_time": {},
        "ms_version": info.framework.get("version", "") if mindspore else "",
        "cann_version": "",
        "jit_level": "",
    }
    stream.write(json.dumps(content, indent=4).encode() + b"\n")
