"""Write a verdict for GitLab: a code quality report and a metrics report, which the merge request shows."""

import hashlib
import json
import re
from typing import Any

from ms_profiler.log import visible

#: name of a file for each finding. GitLab requires one, although the gate's findings do not belong to any file.
_PLACE = "ms-profiler-gate"


def code_quality(document: dict[str, Any]) -> str:
    """Return the findings of a verdict in Code Climate's form, which GitLab reads as the report `codequality`.

    Args:
        document: the verdict, as `document.of` returns it.
    """
    found = [
        (one["name"], "", f"{one['name']}: {one['base']:,.6g} to {one['new']:,.6g} {one['unit']}".rstrip(), "major")
        for one in document["metrics"]
        if one["verdict"] == "regression"
    ]
    found += [("comparable", reason, reason, "critical") for reason in document["reasons"]]
    return json.dumps(
        [
            {
                "description": visible(said),
                "check_name": name,
                # GitLab recognises a finding by its fingerprint, so this is the same in each pipeline. Reasons have
                # one name, so each has its text as well.
                "fingerprint": hashlib.sha256(visible(f"{name} {severity}{own}").encode()).hexdigest(),
                "severity": severity,
                "location": {"path": _PLACE, "lines": {"begin": 1}},
            }
            for name, own, said, severity in found
        ],
        indent=1,
    )


def metrics(document: dict[str, Any]) -> str:
    """Return the figures of the new version as OpenMetrics, which GitLab reads as the report `metrics`.

    Args:
        document: the verdict, as `document.of` returns it.
    """
    lines = []
    for one in document["metrics"]:
        name = re.sub(r"\W+", "_", f"ms_profiler {one['name']} {one['unit']}".strip()).lower()
        lines.append(f"{name} {one['new']:.9g}")
    return "\n".join([*lines, "# EOF"]) + "\n"
