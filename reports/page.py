"""Self-contained HTML pages: one file that opens from disk and asks nothing of the network.

A page is a template that extends `page.html`. Style, script and data are written into it; a
content security policy lets that one script and that one style run and forbids every request.
Values reach the page in two ways only: through a template, which escapes them, and as JSON, which
the script sets as text.
"""

import hashlib
import json
import os
import tempfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.faults import InputError
from reports.visible import visible, visible_json

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["GENERATOR", "embed_json", "refuse_foreign_page", "render_page", "write_page"]

TEMPLATES = Path(__file__).with_name("templates")
GENERATOR = "assay"
# How a page of ours is told from a stranger's file before it is replaced.
_MARK = f'<meta name="generator" content="{GENERATOR}">'.encode()
_MARK_WITHIN = 1024


def embed_json(value: object) -> str:
    """Return JSON that no HTML parser can take for markup, to stand inside a script element.

    Every `<` becomes an escape, so neither `</script` nor `<!--` can occur, and so does every
    control character, which a parser may refuse or replace. NaN and infinity are refused with
    ValueError, being no JSON.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return visible_json(text.replace("<", "\\u003c"))


def render_page(
    template: str,
    *,
    title: str,
    data: object,
    styles: Sequence[str] = (),
    scripts: Sequence[str] = (),
    may_connect: bool = False,
    context: Mapping[str, Any] | None = None,
) -> str:
    """Return the HTML of a template under `templates/` that extends `page.html`.

    `styles` and `scripts` name files there that follow `page.css` and `page.js`, in order. `data`
    becomes the JSON that the script reads. `may_connect` lets the script ask the server that the
    page came from, and no other. `context` is what else the template shows.
    """
    from markupsafe import Markup

    css = _joined("page.css", *styles)
    script = _joined("page.js", *scripts)
    policy = [
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(css)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        *(["connect-src 'self'"] if may_connect else []),
    ]
    # Style and script are files of this package and the JSON is escaped by embed_json.
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            generator=GENERATOR,
            policy="; ".join(policy),
            css=Markup(css),  # noqa: S704
            script=Markup(script),  # noqa: S704
            data=Markup(embed_json(data)),  # noqa: S704
            **(context or {}),
        )
    )


def refuse_foreign_page(path: Path) -> None:
    """Refuse a place where no page can stand, or where one would replace a file not ours.

    Raises InputError.
    """
    if path.is_dir():
        raise InputError("a folder", path=path, fix="name a file with -o")
    if path.exists():
        with path.open("rb") as stream:
            start = stream.read(_MARK_WITHIN)
        if start and _MARK not in start:
            raise InputError(
                "another file, which would be lost", path=path, fix="name a new file with -o"
            )
    if not path.parent.is_dir():
        raise InputError("no such folder", path=path.parent, fix="make it, or name another")


def write_page(path: Path, html: str) -> None:
    """Write a page in one step; a page of ours in its place is replaced. Raises InputError."""
    refuse_foreign_page(path)
    try:
        _replace(path, html.encode())
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}",
            path=path,
            fix="make room there, or name a folder that can be written",
        ) from error


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )


def _seen(value: object) -> object:
    """Let a template show no control character; style, script and data are not its text."""
    return visible(value) if type(value) is str else value


@cache
def _joined(*names: str) -> str:
    return "\n" + "\n".join((TEMPLATES / name).read_text("utf-8") for name in names)


def _hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()
