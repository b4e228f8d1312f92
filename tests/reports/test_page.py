"""Pages that ask nothing of the network and take no text for markup."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.faults import InputError
from reports.page import TEMPLATES, embed_json, render_page, write_page

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(TEXT, children, max_size=3),
    max_leaves=8,
)


class Scripts(HTMLParser):
    """Collects what an HTML parser takes for the content of script elements."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._inside = tag == "script"
        if self._inside:
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.found[-1] += data


def scripts_of(html: str) -> list[str]:
    parser = Scripts()
    parser.feed(html)
    return parser.found


@given(VALUES)
def test_data_comes_back_whole_when_read_by_a_parser(value: object) -> None:
    data, _ = scripts_of(render_page("page.html", title="t", data=value))
    assert json.loads(data) == value


@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--<script>", "</SCRIPT "]
)
def test_data_stays_data_when_text_looks_like_markup(text: str) -> None:
    assert "<" not in embed_json({text: text})
    found = scripts_of(render_page("page.html", title=text, data=[text]))
    assert len(found) == 2
    assert json.loads(found[0]) == [text]


@given(VALUES)
def test_no_control_character_stands_in_the_data_of_a_page(value: object) -> None:
    text = embed_json(value)
    assert json.loads(text) == value
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069<]", text)


def test_page_can_be_written_when_a_text_is_half_a_pair(tmp_path: Path) -> None:
    # A JSON escape alone can make one; no encoding can write it.
    write_page(tmp_path / "p.html", render_page("page.html", title="\ud800", data="\udfff"))
    data, _ = scripts_of((tmp_path / "p.html").read_text("utf-8"))
    assert json.loads(data) == "\udfff"


def test_title_is_escaped_when_it_holds_markup() -> None:
    html = render_page("page.html", title="<b>&", data=None)
    assert "<title>&lt;b&gt;&amp;</title>" in html


def test_number_is_refused_when_it_is_no_json() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        embed_json(float("nan"))


def test_policy_forbids_requests_when_page_is_a_file() -> None:
    policy = re.search(
        r'Security-Policy" content="([^"]+)"', render_page("page.html", title="", data=0)
    )
    assert policy is not None
    rules = policy[1].replace("&#39;", "'")
    assert "default-src 'none'" in rules
    assert "unsafe" not in rules
    assert "connect-src" not in rules


def test_pages_hold_no_address_and_no_markup_from_text() -> None:
    for file in TEMPLATES.iterdir():
        text = file.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|@import|url\(", text), file
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text), (
            file
        )


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dim, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


def colours(theme: str) -> dict[str, str]:
    css = (TEMPLATES / "page.css").read_text("utf-8")
    light, dark = re.findall(r":root(?:\[[^\]]*\])? \{(.*?)\}", css, flags=re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    return found | (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark)) if theme == "dark" else {}
    )


def test_contrast_is_21_when_black_meets_white() -> None:
    # (1 + .05) / (0 + .05) = 21
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_meets_wcag_aa(theme: str) -> None:
    found = colours(theme)
    for ground in ("ground", "card", "sunk"):
        for text in ("ink", "muted", "accent", "warn"):
            assert contrast(found[text], found[ground]) >= 4.5, (text, ground)
        assert contrast(found["edge"], found[ground]) >= 3.0, ground
    assert contrast(found["on-accent"], found["accent"]) >= 4.5
    assert contrast(found["ink"], found["accent-soft"]) >= 4.5
    for series in ("orange", "sky", "green", "yellow", "vermillion", "purple", "grey"):
        assert contrast(found["on-series"], found[series]) >= 4.5, series


def test_page_is_replaced_when_it_is_ours(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    for title in ("one", "two"):
        write_page(place, render_page("page.html", title=title, data=None))
        assert f"<title>{title}</title>" in place.read_text("utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_file_is_kept_when_it_is_no_page_of_ours(tmp_path: Path) -> None:
    place = tmp_path / "thesis.html"
    place.write_text("<p>years of work")
    with pytest.raises(InputError, match="would be lost"):
        write_page(place, "new")
    assert place.read_text() == "<p>years of work"


@pytest.mark.parametrize("place", [".", "absent/page.html"])
def test_place_is_refused_when_no_file_can_stand_there(tmp_path: Path, place: str) -> None:
    with pytest.raises(InputError):
        write_page(tmp_path / place, "page")
    assert list(tmp_path.iterdir()) == []
