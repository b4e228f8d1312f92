"""One drug label as a file of each format: PDF, HTML, Markdown, SPL XML and openFDA JSON.

The formats say the same and no more: what a reader makes of them can be compared.
"""

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

__all__ = ["FORMATS", "Label", "LabelSection", "write_label"]


@dataclass(frozen=True)
class LabelSection:
    """A section by depth (1 is highest), title, LOINC code ("" for none) and paragraphs."""

    title: str
    text: str
    code: str = ""
    depth: int = 1


@dataclass(frozen=True)
class Label:
    """A label; `key` is the stem of its files."""

    key: str
    brand: str
    generic: str
    sections: Sequence[LabelSection]

    @property
    def title(self) -> str:
        return f"{self.brand} ({self.generic})" if self.generic else self.brand


def as_html(label: Label) -> bytes:
    body = "".join(
        f"<h{s.depth + 1}>{html.escape(s.title)}</h{s.depth + 1}>"
        + "".join(f"<p>{html.escape(part)}</p>" for part in s.text.split("\n"))
        for s in label.sections
    )
    page = (
        "<!DOCTYPE html><html><head><meta charset='utf-8'><title>A portal of labels</title>"
        "<style>h1 {color: red}</style><script>var secret = 'menu of the site'</script></head>"
        f"<body><nav>Home Search</nav><main><h1>{html.escape(label.title)}</h1>{body}</main>"
        "</body></html>"
    )
    return page.encode()


def as_markdown(label: Label) -> bytes:
    parts = [f"# {label.title}"]
    for s in label.sections:
        parts.append(f"{'#' * (s.depth + 1)} {s.title}")
        parts += [_markdown_text(part) for part in s.text.split("\n")]
    return ("\n\n".join(parts) + "\n").encode()


def as_pdf(label: Label) -> bytes:
    """Write with the standard fonts, which know Latin-1 alone."""
    from fpdf import FPDF

    pdf = FPDF()
    pdf.add_page()
    sizes = {0: 20.0, 1: 16.0, 2: 14.0, 3: 13.0}

    def write(text: str, size: float, bold: bool, after: float) -> None:
        pdf.set_font("Helvetica", "B" if bold else "", size)
        latin = text.encode("latin-1", "replace").decode("latin-1")
        pdf.multi_cell(0, size / 2, latin, align="L", new_x="LMARGIN", new_y="NEXT")
        pdf.ln(after)

    write(label.title, sizes[0], True, 3)
    for s in label.sections:
        write(s.title, sizes[s.depth], True, 1)
        for part in s.text.split("\n"):
            write(part, 11, False, 3)
    return bytes(pdf.output())


def as_spl(label: Label) -> bytes:
    sections = "".join(_spl_sections(list(label.sections), 1))
    generic = (
        f"<asEntityAsEquivalent><genericMedicine><name>{escape(label.generic)}</name>"
        "</genericMedicine></asEntityAsEquivalent>"
        if label.generic
        else ""
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<document xmlns="urn:hl7-org:v3">'
        f"<id root={quoteattr(f'{label.key}-version')}/><setId root={quoteattr(label.key)}/>"
        f"<title>These highlights do not include all the information.<br/>{escape(label.brand)}"
        "</title><component><structuredBody>"
        "<component><section><code code='48780-1'/><subject><manufacturedProduct>"
        f"<manufacturedProduct><name>{escape(label.brand)}</name>{generic}"
        "</manufacturedProduct></manufacturedProduct></subject></section></component>"
        f"{sections}</structuredBody></component></document>"
    )
    return text.encode()


def as_openfda(label: Label) -> bytes:
    record: dict[str, object] = {
        "id": f"{label.key}-version",
        "set_id": label.key,
        "openfda": {"brand_name": [label.brand], "generic_name": [label.generic]},
    }
    fields = {
        "34067-9": "indications_and_usage",
        "34068-7": "dosage_and_administration",
        "34071-1": "warnings",
        "34084-4": "adverse_reactions",
    }
    for s in label.sections:
        if s.code in fields:
            record[fields[s.code]] = [f"{s.title} {s.text}"]
    return json.dumps({"meta": {}, "results": [record]}, indent=1).encode()


FORMATS = {"pdf": as_pdf, "html": as_html, "md": as_markdown, "xml": as_spl}


def write_label(folder: Path, label: Label, kind: str) -> Path:
    """Write one label as one file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{label.key}.{kind}"
    file.write_bytes(FORMATS[kind](label))
    return file


def _markdown_text(text: str) -> str:
    """Escape what Markdown would take for markup."""
    escaped = "".join(f"\\{c}" if c in "\\`*_[]<>#+-.!|&" else c for c in text)
    return escaped


def _spl_sections(sections: list[LabelSection], depth: int) -> list[str]:
    """Nest sections by their depth."""
    parts = []
    while sections and sections[0].depth >= depth:
        s = sections.pop(0)
        paragraphs = "".join(f"<paragraph>{escape(p)}</paragraph>" for p in s.text.split("\n"))
        code = f"<code code={quoteattr(s.code)} codeSystem='2.16.840.1.113883.6.1'/>"
        within = "".join(_spl_sections(sections, s.depth + 1))
        parts.append(
            f"<component><section><id root='x'/>{code if s.code else ''}"
            f"<title>{escape(s.title)}</title><text>{paragraphs}</text>"
            f"<excerpt><highlight><text>{paragraphs}</text></highlight></excerpt>"
            f"{within}</section></component>"
        )
    return parts
