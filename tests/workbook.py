"""Read the cells of a spreadsheet file, and nothing else of it."""

import re
import zipfile
from xml.etree import ElementTree

_NAMESPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets(folder):
    """Return {title: rows} of the only workbook below a folder; a row is a list of texts, numbers and None."""
    (file,) = folder.rglob("*.xlsx")
    with zipfile.ZipFile(file) as book:
        texts = []
        if "xl/sharedStrings.xml" in book.namelist():
            shared = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
            texts = ["".join(part.text or "" for part in _all(item, "t")) for item in _all(shared, "si")]
        titles = [sheet.get("name") for sheet in _all(ElementTree.fromstring(book.read("xl/workbook.xml")), "sheet")]
        found = {}
        for number, title in enumerate(titles, 1):
            sheet = ElementTree.fromstring(book.read(f"xl/worksheets/sheet{number}.xml"))
            found[title] = [_row(row, texts) for row in _all(sheet, "row")]
        return found


def _all(element, name):
    return element.iter(_NAMESPACE + name)


def _row(row, texts):
    cells = []
    for cell in _all(row, "c"):
        column = 0
        for sign in re.match("[A-Z]+", cell.get("r"))[0]:
            column = 26 * column + ord(sign) - ord("A") + 1
        cells += [None] * (column - 1 - len(cells))
        value = next((part.text for part in _all(cell, "v")), None)
        if value is None:
            cells.append(None)
        elif cell.get("t") == "s":
            cells.append(texts[int(value)])
        else:
            cells.append(value if cell.get("t") else float(value))
    return cells
