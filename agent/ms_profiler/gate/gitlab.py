"""Write a verdict for GitLab: a code quality report and a metrics report, which the merge request shows."""

import hashlib
import json
import re
from typing import Any

#: the file that each finding names: GitLab requires one, although the gate's findings concern no single file
_PLACE = "ms-profiler-gate"


def code_quality(document: dict[str, Any]) -> str:
    """Return the findings in Code Climate's form, which GitLab reads as `codequality`.

    Args:
        document: the result of `document.of`.
    """
    found = [
        (one["name"], f"{one['name']}: {one['base']:,.6g} to {one['new']:,.6g} {one['unit']}".rstrip(), "major")
        for one in document["metrics"]
        if one["verdict"] == "regression"
    ]
    found += [("comparable", reason, "critical") for reason in document["reasons"]]
    return json.dumps(
        [
            {
                "description": said,
                "check_name": name,
                # the fingerprint of a finding is the same in each pipeline
                "fingerprint": hashlib.sha256(f"{name} {severity}".encode()).hexdigest(),
                "severity": severity,
                "location": {"path": _PLACE, "lines": {"begin": 1}},
            }
            for name, said, severity in found
        ],
        indent=1,
    )


def metrics(document: dict[str, Any]) -> str:
    """Return the new side's figures as OpenMetrics, which GitLab reads as `metrics`.

    Args:
        document: the result of `document.of`.
    """
    lines = []
    for one in document["metrics"]:
        name = re.sub(r"\W+", "_", f"ms_profiler {one['name']} {one['unit']}".strip()).lower()
        lines.append(f"{name} {one['new']:.9g}")
    return "\n".join([*lines, "# EOF"]) + "\n"
