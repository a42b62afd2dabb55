"""Damage files of a result as a hostile author, a bad disk or another version of the program would."""

import gzip
import json
import shutil
import sqlite3
import zlib
from pathlib import Path

from ms_profiler.store import format as fmt

#: values that replace a value in JSON
VALUES = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        0.5,
        -0.0,
        1e308,
        -1e-320,
        2**31,
        2**32,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64,
        -(2**63),
    ),
    *(
        "",
        "x",
        "\x00",
        "\ud800",
        "=cmd|' /C calc'!A0",
        "\x1b[2J",
        "9" * 30,
        "1e999",
        "-1",
        "NaN",
        "../../x",
        "x" * 100_000,
    ),
    *([], {}, [[]], [None], {"": None}, {"ts": []}, [0] * 1000),
)
#: texts that replace bytes of a file or the cell of a table
TEXTS = (
    *(
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"1" * 5000,
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"}" * 9,
        b'"',
        b"\\",
        b"\xff\xfe",
    ),
    *(
        b"\x00" * 64,
        b"-9223372036854775809",
        b"0x10",
        b"1.7e308",
        b"\r",
        b"\n\n",
        b",,,,",
        b'"\n"',
        b"\xed\xa0\x80",
        b"1_000",
    ),
)
#: numbers that replace a field of a record
NUMBERS = (
    0,
    1,
    2,
    31,
    32,
    255,
    256,
    2**16,
    2**22,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**48,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
#: size in bytes above which a JSON file is damaged as bytes, not as a tree of values
TREE_MOST = 2_000_000


def _bits(wait, data):
    for _ in range(wait.choice((1, 3, 40))):
        data[wait.randrange(len(data))] ^= 1 << wait.randrange(8)


def _cut(wait, data):
    del data[wait.randrange(len(data)) :]


def _hole(wait, data):
    start = wait.randrange(len(data))
    end = min(start + wait.choice((1, 8, 32, 500, 4096)), len(data))
    if wait.random() < 0.5:
        data[start:end] = bytes(end - start)
    else:
        del data[start:end]


def _twice(wait, data):
    start = wait.randrange(len(data))
    part = data[start : start + wait.choice((8, 32, 128, 4096))]
    data[start:start] = part * wait.choice((1, 2, 50))


def _number(wait, data):
    size = wait.choice((1, 2, 4, 8))
    at = wait.randrange(len(data)) // size * size
    data[at : at + size] = (wait.choice(NUMBERS) % (1 << 8 * size)).to_bytes(size, "little")


def _text(wait, data):
    at = wait.randrange(len(data))
    data[at : at + wait.choice((0, 1, 20))] = wait.choice(TEXTS)


def _noise(wait, data):
    data[:] = wait.randbytes(wait.choice((0, 1, 7, 128, 5000)))


BYTES = (_bits, _bits, _cut, _hole, _twice, _number, _number, _number, _text, _noise)


def _places(tree, found):
    """Append each place in a JSON value to `found` as (container, key or index), and return `found`."""
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        for key in item if isinstance(item, dict) else range(len(item)):
            found.append((item, key))
            if isinstance(item[key], (dict, list)):
                waiting.append(item[key])
    return found


def _tree(wait, data):
    """Replace `data`, the bytes of a JSON value, by a changed value; return False if that is impossible.

    It is impossible if `data` is larger than `TREE_MOST`, cannot be read before the change, or cannot be written after
    it.
    """
    if len(data) > TREE_MOST:
        return False
    try:
        tree = json.loads(bytes(data))
    except (ValueError, RecursionError):
        return False
    places = _places(tree, []) if isinstance(tree, (dict, list)) else []
    for _ in range(min(wait.choice((1, 1, 5, 60)), len(places))):
        item, key = wait.choice(places)
        way = wait.randrange(8)
        try:
            if way == 0:
                del item[key]
            elif way == 1 and isinstance(item, list):
                item.insert(key, item[key])
            elif way == 2:
                other, place = wait.choice(places)
                item[key] = json.loads(json.dumps(other[place]))
            elif way == 3 and isinstance(item[key], (int, float)):
                item[key] = item[key] * wait.choice((-1, 1e9, 1e-9, 0))
            else:
                item[key] = wait.choice(VALUES)
        except (KeyError, IndexError, ValueError, RecursionError):
            pass  # an earlier change removed the place, or made the value contain itself
    try:
        data[:] = json.dumps(tree).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return False
    return True


def _line(wait, data):
    """Change values in one of the lines of JSON in `data`; return False if that line is not JSON."""
    lines = bytes(data).split(b"\n")
    place = wait.randrange(len(lines))
    line = bytearray(lines[place])
    if not _tree(wait, line):
        return False
    lines[place] = bytes(line)
    data[:] = b"\n".join(lines)
    return True


def _unpacked(wait, data):
    """Damage the unpacked content of a gzip file, and pack it again as one gzip member or as two."""
    try:
        content = bytearray(gzip.decompress(bytes(data)))
    except (OSError, EOFError, zlib.error):
        return False
    if not content or not (wait.random() < 0.5 and _tree(wait, content)):
        wait.choice(BYTES)(wait, content or bytearray(b" "))
    half = wait.randrange(len(content) + 1) if wait.random() < 0.3 else 0
    data[:] = b"".join(gzip.compress(part, 1) for part in (bytes(content[:half]), bytes(content[half:])) if part)
    return True


def _cells(wait, data):
    """Change cells in one or several lines of a CSV table."""
    lines = bytes(data).split(b"\n")
    for _ in range(wait.choice((1, 4, 30))):
        row = wait.randrange(len(lines))
        cells = lines[row].split(b",")
        value = wait.choice(VALUES)
        text = wait.choice(TEXTS) if wait.random() < 0.3 else str(value).encode("utf-8", "surrogatepass")
        cells[wait.randrange(len(cells))] = text
        lines[row] = b",".join(cells)
    data[:] = b"\n".join(lines)


def _slots(wait, data):
    """Overwrite whole slots of a file of records, or single fields of slots; return False if the file has no slot."""
    count = (len(data) - fmt.HEADER_SIZE) // fmt.SLOT_SIZE
    kind = fmt.SLOT_SIZE - 4
    while count > 0 and not data[fmt.HEADER_SIZE + (count - 1) * fmt.SLOT_SIZE + kind]:
        count -= 1  # the process has not used this slot
    if count < 1:
        return False
    places = [fmt.HEADER_SIZE + number * fmt.SLOT_SIZE for number in range(count)]
    if wait.random() < 0.4:
        first = wait.randrange(count)
        for at in places[first : first + wait.choice((1, 5, 50, 600))]:
            times = wait.choice(places)
            known = bytes(data[times : times + 16]) if wait.random() < 0.5 else wait.randbytes(16)
            data[at : at + fmt.SLOT_SIZE] = known + wait.randbytes(fmt.SLOT_SIZE - 16)
            data[at + kind] = wait.randrange(len(fmt.Kind) + 1)
        return True
    for _ in range(wait.choice((1, 3, 20))):
        at = wait.choice(places)
        offset, size = wait.choice(((0, 8), (8, 8), (16, 8), (24, 4), (29, 1), (30, 1), (31, 1)))
        value = wait.choice(NUMBERS) if wait.random() < 0.6 else wait.getrandbits(8 * size)
        data[at + offset : at + offset + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        if wait.random() < 0.2:
            data[at + kind] = wait.randrange(len(fmt.Kind) + 1)
    return True


def _rows(wait, path):
    """Change rows, columns and tables of a SQLite database; return False if SQLite raised an error."""
    try:
        connection = sqlite3.connect(path)
        try:
            tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
            for _ in range(wait.choice((1, 3, 10))):
                table = wait.choice(tables)
                columns = [row[1] for row in connection.execute(f'pragma table_info("{table}")')]
                column, way = wait.choice(columns), wait.randrange(7)
                if way == 6:
                    odd = wait.choice(("of two words", "a); SELECT 1; --", "select", "'", table + "\n"))
                    connection.execute(f'create table if not exists "{odd}" ("{column}")')
                elif way == 0:
                    connection.execute(f'drop table "{table}"')
                elif way == 1:
                    connection.execute(f'alter table "{table}" rename column "{column}" to "other"')
                elif way == 2:
                    connection.execute(f'delete from "{table}"')
                else:
                    values = (None, -1, 2**63 - 1, -(2**63), "x", b"\xff", 1e308, "\x1b[2J", 0)
                    some = "" if way == 3 else " where rowid % 3 = 0"
                    connection.execute(f'update "{table}" set "{column}" = ?{some}', (wait.choice(values),))
            connection.commit()
        finally:
            connection.close()
    except (sqlite3.Error, IndexError):
        return False
    return True


def damage(wait, source, target):
    """Copy a result and damage up to three files of the copy.

    Args:
        wait: the random generator.
        source: the result; a file or a directory.
        target: the path of the copy, which must not exist yet.

    Returns:
        A text that names each change.
    """
    if source.is_file():
        shutil.copyfile(source, target)
        files = [target]
    else:
        shutil.copytree(source, target, symlinks=True)
        files = sorted(path for path in Path(target).rglob("*") if path.is_file() and path.stat().st_size)
    changes = []
    for _ in range(wait.choice((1, 1, 1, 2, 3))):
        path = wait.choice(files)
        if not path.exists():
            continue
        if wait.random() < 0.04 and not source.is_file():
            path.unlink()
            changes.append(f"no {path.name}")
        else:
            changes.append(change(wait, path))
    return "; ".join(changes)


def change(wait, path):
    """Damage one file in a way that suits the suffix of its name, and return a text that names the change.

    Args:
        wait: the random generator.
        path: the file.
    """
    chance = wait.random()
    if path.suffix == ".db" and chance < 0.6 and _rows(wait, path):
        return f"rows of {path.name}"
    data = bytearray(path.read_bytes())
    if not data:
        return f"nothing of {path.name}"
    way = _changed(wait, chance, path.suffix, data)
    path.write_bytes(data)
    return f"{way} of {path.name}"


def _changed(wait, chance, suffix, data):
    """Damage the bytes of a file in a way that suits the suffix of its name, and return the name of the way."""
    if suffix == ".csv" and chance < 0.7:
        _cells(wait, data)
        return "cells"
    if suffix == ".gz" and chance < 0.7 and _unpacked(wait, data):
        return "packed content"
    if suffix == ".seg" and chance < 0.7 and _slots(wait, data):
        return "slots"
    if chance <= 0.65 and (_line if suffix == ".jsonl" else _tree)(wait, data):
        return "values"
    way = wait.choice(BYTES)
    way(wait, data)
    return way.__name__
