"""A verdict of the gate as JUnit's XML: one test case for each figure."""

from typing import Any
from xml.etree import ElementTree

from ms_profiler.log import visible

_SUITE = "ms-profiler gate"


def report(document: dict[str, Any]) -> bytes:
    """Return the verdict as JUnit's XML.

    A regression becomes a failure, and an inconclusive figure a skipped test. If the runs cannot be compared, the
    result has an error. XML has no control characters and no bytes that are not text, so they become visible ones.

    Args:
        document: the verdict, as `document.of` returns it.
    """
    suite = ElementTree.Element("testsuite", name=_SUITE)
    counts = dict.fromkeys(("failure", "skipped", "error"), 0)

    def case(name: str, result: str, said: str) -> None:
        each = ElementTree.SubElement(suite, "testcase", classname="ms_profiler.gate", name=visible(name))
        if result:
            counts[result] += 1
            ElementTree.SubElement(each, result, message=visible(said))

    for reason in document["reasons"]:
        case("comparable", "error", reason)
    results = {"regression": "failure", "inconclusive": "skipped", "advisory": "skipped"}
    for one in document["metrics"]:
        case(one["name"], results.get(one["verdict"], ""), _said(one))
    suite.set("tests", str(len(suite)))
    for result, attribute in (("failure", "failures"), ("skipped", "skipped"), ("error", "errors")):
        suite.set(attribute, str(counts[result]))
    top = ElementTree.Element("testsuites")
    top.append(suite)
    ElementTree.indent(top)
    content: bytes = ElementTree.tostring(top, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _said(one: dict[str, Any]) -> str:
    unit = f" {one['unit']}" if one["unit"] else ""
    said = f"{one['base']:,.6g}{unit} before, {one['new']:,.6g}{unit} now"
    if one["ratio"] is not None:
        said += f", x{one['ratio']:.3f}"
    if one["low"] is not None:
        said += f" (x{one['low']:.3f} to x{one['high']:.3f})"
    return f"{said}; {one['why']}" if one["why"] else said
