"""The descriptions of device slots in C and in Python agree."""

import re
from pathlib import Path

import pytest
from ms_profiler.store import device_format

HEADER = (Path(__file__).parent.parent / "native" / "device_format.h").read_text()


@pytest.mark.parametrize(
    ("prefix", "enumeration"), [("MSP_DEVICE_SOURCE_", device_format.Source), ("MSP_DEVICE_", device_format.Device)]
)
def test_enumerations(prefix, enumeration):
    found = {name: int(value) for name, value in re.findall(rf"^#define {prefix}(\w+) (\d+)", HEADER, re.MULTILINE)}
    declared = {name: value for name, value in found.items() if prefix.endswith("SOURCE_") or "SOURCE" not in name}
    assert declared == {member.name: member.value for member in enumeration}
    assert len(declared) == len(enumeration) > 0
