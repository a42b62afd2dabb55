"""Every option for aclprof becomes the bit, the counters or the setting that CANN documents for it."""

from dataclasses import replace

import pytest
from ms_profiler.job.devices.aclprof_plan import Metrics, needs, plan
from ms_profiler.options import Options, resolve

BASE = Options()
STORAGE = (1, "500MB")


def planned(*recordings):
    """Return the bits, the counters and the (setting, value) pairs for recordings with these options."""
    made = plan([resolve(options)[0] for options in recordings], 500_000_000)
    return int(made.data), int(made.metrics), [(int(request.setting), request.value) for request in made.requests]


@pytest.mark.parametrize(
    ("options", "bits", "metrics"),
    [
        ({"profiler_level": "LevelNone", "mstx": True}, 0x80, 0xFF),
        ({}, 0x801, 0xFF),
        ({"profiler_level": "Level1"}, 0x27, 1),
        ({"profiler_level": "Level2"}, 0x12F, 1),
        ({"profiler_level": "Level1", "aic_metrics": "ArithmeticUtilization"}, 0x27, 0),
        ({"profiler_level": "Level1", "aic_metrics": "Memory"}, 0x27, 2),
        ({"profiler_level": "Level1", "aic_metrics": "MemoryL0"}, 0x27, 3),
        ({"profiler_level": "Level1", "aic_metrics": "ResourceConflictRatio"}, 0x27, 4),
        ({"profiler_level": "Level1", "aic_metrics": "MemoryUB"}, 0x27, 5),
        ({"profiler_level": "Level1", "aic_metrics": "L2Cache"}, 0x27, 6),
        ({"profiler_level": "Level1", "aic_metrics": "MemoryAccess"}, 0x27, 8),
        ({"aicore_metrics": 0}, 0x27, 0),
        ({"l2_cache": True}, 0x811, 0xFF),
    ],
)
def test_bits_and_counters(options, bits, metrics):
    assert planned(options) == (bits, metrics, [STORAGE])


@pytest.mark.parametrize(
    ("options", "bits", "settings"),
    [
        ({"profile_memory": True}, 0x1801, [(3, "50")]),
        ({"hbm_ddr": True}, 0x801, [(3, "50")]),
        ({"hbm_ddr": True, "profile_memory": True}, 0x1801, [(3, "50")]),
        ({"pcie": True}, 0x801, [(6, "50")]),
        ({"sys_interconnection": True}, 0x801, [(6, "50")]),
        ({"sys_io": True}, 0x801, [(5, "100")]),
        ({"host_sys": ["mem", "cpu"], "sys_io": True}, 0x801, [(5, "100"), (8, "mem,cpu")]),
    ],
)
def test_settings(options, bits, settings):
    assert planned(options) == (bits, 0xFF, [STORAGE, *settings])


def test_the_plan_joins_the_options_of_all_recordings():
    first, second = {"host_sys": ["cpu"], "l2_cache": True}, {"profiler_level": "Level1", "host_sys": ["cpu", "mem"]}
    assert planned(first, second) == (0x837, 1, [STORAGE, (8, "cpu,mem")])


def test_settings_know_whose_they_are():
    made = plan([replace(BASE, hbm_ddr=True, profile_memory=True)], 200_000_000)
    assert [request.options for request in made.requests] == [("max_disk",), ("profile_memory", "hbm_ddr")]
    assert made.metrics is Metrics.NONE


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, []),
        ({"mstx": True, "data_process": True}, []),
        ({"profiler_level": "Level1"}, ["aic_metrics PipeUtilization"]),
        ({"profiler_level": "Level2"}, ["profiler_level Level2", "aic_metrics PipeUtilization"]),
        *(
            ({name: True}, [name])
            for name in ("l2_cache", "hbm_ddr", "pcie", "sys_io", "sys_interconnection", "profile_memory")
        ),
        ({"host_sys": ["cpu"]}, ["host_sys"]),
    ],
)
def test_options_that_need_aclprof(options, named):
    assert needs(resolve(options)[0]) == named


def test_memory_does_not_where_msptis_library_is_preloaded():
    assert needs(resolve({"profile_memory": True})[0], preloaded=True) == []
