"""The descriptions of the file format in C and in Python agree."""

import re
from pathlib import Path

import pytest
from ms_profiler.store import format as fmt

HEADER = (Path(__file__).parent.parent / "native" / "file_format.h").read_text()
SIZES = {"uint8_t": (1, "B"), "uint32_t": (4, "I"), "uint64_t": (8, "Q")}


def defines(prefix):
    pattern = rf"^#define {prefix}(\w+) (0x[0-9A-Fa-f]+|\d+)(?:ULL)?\b"
    return {name: int(value, 0) for name, value in re.findall(pattern, HEADER, re.MULTILINE)}


def members(struct):
    """Return (type, name, length) of each member of a C struct, and check that the struct has no padding."""
    body = re.search(r"typedef struct \{([^}]*)\} " + struct + ";", HEADER)[1]
    found = re.findall(r"^\s*(\w+) (\w+)(?:\[(\d+)\])?;", body, re.MULTILINE)
    offset = 0
    for kind, name, length in found:
        size = SIZES[kind][0]
        assert offset % size == 0, f"{name} would be padded"
        offset += size * int(length or 1)
    return [(kind, name, int(length or 0)) for kind, name, length in found]


def layout(struct):
    return "=" + "".join(f"{length}s" if length else SIZES[kind][1] for kind, _, length in members(struct))


def test_constants():
    found = defines("MSP_")
    for name in (
        "MAGIC",
        "FORMAT_VERSION",
        "HEADER_SIZE",
        "SLOT_SIZE",
        "STRING_MAX",
        "SEGMENT_CONTROL",
        "CATEGORY_FINE",
        "OP_TIE_BITS",
        "FRAME_LINE_BITS",
        "BLOCK_BITS",
        "BLOCK_RELEASED",
        "NOT_READ",
    ):
        assert getattr(fmt, name) == found[name], name
    assert int.from_bytes(b"MSPSTOR1", "little") == fmt.MAGIC


@pytest.mark.parametrize(("prefix", "enumeration"), [("MSP_KIND_", fmt.Kind), ("MSP_FLAG_", fmt.Flag)])
def test_enumerations(prefix, enumeration):
    assert defines(prefix) == {member.name: member.value for member in enumeration}


def test_categories_of_the_extension():
    found = {name: value for name, value in defines("MSP_CATEGORY_").items() if name != "FINE"}
    assert found == {name: fmt.Category[name] for name in found}
    assert set(found) == {"COMMUNICATION", "MARKER", "MODULE", "OP", "CALL", "BLOCK"}


def test_segment_flags_are_all_mirrored():
    assert defines("MSP_SEGMENT_") == {"CONTROL": fmt.SEGMENT_CONTROL}


@pytest.mark.parametrize(
    ("struct", "mirror", "size"),
    [("msp_segment_header", fmt.HEADER, fmt.HEADER_SIZE), ("msp_slot", fmt.SLOT, fmt.SLOT_SIZE)],
)
def test_layouts(struct, mirror, size):
    assert layout(struct) == mirror.format
    assert mirror.size == size


def test_the_last_word_commits_the_slot():
    assert [name for _, name, _ in members("msp_slot")][-4:] == ["kind", "category", "flags", "extra"]


def test_fine_categories_carry_the_bit():
    fine = {member.name for member in fmt.Category if member.value & fmt.CATEGORY_FINE}
    assert fine == {"MODULE", "OP", "CALL", "BLOCK", "TRACED"}
