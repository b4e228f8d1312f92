"""A gate's verdicts as JUnit XML, which every CI shows."""

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

__all__ = ["to_junit"]

# XML 1.0 has no way to write these, not even escaped.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(comparison: Mapping[str, Any]) -> str:
    """Return a suite a candidate, a case a rule; a comparison without a gate has no cases.

    A rule that had nothing to judge is skipped.
    """
    root = ElementTree.Element("testsuites", name="assay compare")
    total = failed = skipped = 0
    for found in comparison["comparisons"]:
        rules = (found["gate"] or {"rules": []})["rules"]
        broken = sum(rule["passed"] is False for rule in rules)
        idle = sum(rule["passed"] is None for rule in rules)
        label = f"{comparison['baseline']['label']} against {found['candidate']['label']}"
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_writable(label),
            tests=str(len(rules)),
            failures=str(broken),
            errors="0",
            skipped=str(idle),
            timestamp=str(comparison["created"]),
        )
        for rule in rules:
            case = ElementTree.SubElement(
                suite, "testcase", classname="assay.gate", name=_writable(rule["rule"])
            )
            if rule["passed"] is None:
                ElementTree.SubElement(case, "skipped", message=_writable(rule["detail"]))
            elif rule["passed"]:
                ElementTree.SubElement(case, "system-out").text = _writable(rule["detail"])
            else:
                failure = ElementTree.SubElement(
                    case, "failure", message=_writable(rule["detail"]), type="gate"
                )
                failure.text = _writable(rule["detail"])
        total, failed, skipped = total + len(rules), failed + broken, skipped + idle
    root.set("tests", str(total))
    root.set("failures", str(failed))
    root.set("skipped", str(skipped))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _writable(text: object) -> str:
    return _UNWRITABLE.sub("\ufffd", str(text))
