"""The manual, served without a key for agents and people: `/llms.txt` is its index, each page is Markdown below
`/docs/`, and `/docs` itself is Swagger UI, without the internet.

Pages and examples are files of the distribution; the page of the settings is made of `sluice.toml`. Swagger UI
(Apache-2.0) comes as it is published from the package `fastapi-swagger`, the rest of which is not used. A strict
content security policy keeps its page to this origin.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import fastapi_swagger.resources
from fastapi import APIRouter, Request, Response

from sluice.contracts.errors import NotFound

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""Swagger UI draws its icons from `data:` addresses; it needs nothing else from outside its files."""
ASSETS = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript", "favicon-32x32.png": "image/png"}
SCRIPT = "start.js"
SETTINGS = "settings.md"
SECTIONS = {"guides": "Guides", "": "Pages", "memory": "Memory", "profiles": "Profiles", "decisions": "Optional"}
"""Sections of the index by folder. Readers that are short of room leave out the section `Optional`."""
FIRST = ("guides/quickstart.md", "guides/keys.md", "guides/mcp.md")
INDEX = """\
# Sluice

> Search-gated retrieval for AI agents: an agent asks, a gate decides whether the corpus is enough or the web is
> searched and crawled, and the answer comes with citations.

Agents have tools at `/mcp` (MCP), programs the interface that `/openapi.json` describes, each error a page at
`/problems/{code}`. All pages below are Markdown.
"""
ABOUT_SETTINGS = """\
# Settings

What `sluice.toml` can set; `sluice init` writes the file with every setting. Each is a variable too, which overrides
the file: `crawl.max_pages` is `SLUICE_CRAWL__MAX_PAGES`. `sluice config` shows where each value comes from.
"""
TABLE = "\n| setting | default | |\n|---|---|---|\n"
SETTING = re.compile(r"^#(\w+) = (.*?)(?:  #(.*))?$", re.MULTILINE)

manual = APIRouter(include_in_schema=False)


class Page(NamedTuple):
    """The title of a page, and its first sentence."""

    title: str
    about: str


@manual.get("/llms.txt")
def index() -> Response:
    """Return the index of all pages, in the form of llmstxt.org."""
    parts = [INDEX]
    for folder, section in SECTIONS.items():
        its = [(name, page) for name, page in pages().items() if name.rpartition("/")[0] == folder]
        parts += [f"\n## {section}\n\n", *(f"- [{page.title}](/docs/{name}): {page.about}\n" for name, page in its)]
    return Response("".join(parts), media_type="text/plain", headers=HEADERS)


@manual.get("/docs")
def swagger() -> Response:
    """Return Swagger UI's page; the files that it loads are below `/docs/`."""
    content = files(__package__).joinpath("docs.html").read_text("utf-8")
    return Response(content, media_type="text/html", headers=HEADERS)


@manual.get("/docs/{name:path}")
def file(request: Request, name: str) -> Response:
    """Return a page, an example, or one of Swagger UI's files."""
    if name == SCRIPT:
        script = files(__package__).joinpath("docs.js").read_text("utf-8")
        script = script.replace("OPENAPI_URL", json.dumps(request.app.openapi_url))
        return Response(script, media_type="text/javascript", headers=HEADERS)
    if name in ASSETS:
        content = files(fastapi_swagger.resources).joinpath(name).read_bytes()
        return Response(content, media_type=ASSETS[name], headers={**HEADERS, "Cache-Control": "max-age=3600"})
    if name == SETTINGS or name in paths():
        return Response(text_of(name), media_type="text/plain", headers=HEADERS)
    raise NotFound(f"/docs has no file {name[:200]!r}: /llms.txt lists its pages")


@cache
def paths() -> dict[str, Path]:
    """Return the files of pages and examples by their names below `/docs/`."""
    folder = Path(str(files("sluice").joinpath("docs")))
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".md", ".py", ".cypher"))
    return {path.relative_to(folder).as_posix(): path for path in found}


@cache
def pages() -> dict[str, Page]:
    """Return every page by its name below `/docs/`, in reading order."""
    names = sorted({*paths(), SETTINGS} - set(FIRST))
    return {name: page_in(text_of(name)) for name in (*FIRST, *names) if name.endswith(".md")}


def text_of(name: str) -> str:
    """Return the text of a page or an example."""
    return settings_page() if name == SETTINGS else paths()[name].read_text("utf-8")


def page_in(text: str) -> Page:
    """Return a text's title, and the first sentence of its first paragraph without marks and links."""
    title, *blocks = text.strip().split("\n\n")
    about = next((one for one in blocks if not one.startswith(("*Status", "#", "|", "    "))), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|\*\*\w+\.\*\* |[*`]", r"\1", " ".join(about.split()))
    return Page(title.removeprefix("# "), re.split(r"(?<=[.?]) (?=[A-Z])|:$", plain, maxsplit=1)[0])


@cache
def settings_page() -> str:
    """Return the reference of the settings, made of the file that `sluice init` writes."""
    text = files("sluice").joinpath("cli", "sluice.toml").read_text("utf-8")
    parts, section = [ABOUT_SETTINGS, TABLE], ""
    for block in text.split("\n\n")[1:]:
        comments = [line[2:] for line in block.splitlines() if line.startswith("# ")]
        about = " ".join(comments).replace("|", "\\|")
        if block.startswith("["):
            section = block[1 : block.index("]")] + "."
            parts.append(f"\n## {section[:-1]}\n\n{about}\n{TABLE}")
        for name, value, note in SETTING.findall(block):
            default = f"none; for example `{value}`" if note.endswith("not set by default") else f"`{value}`{note}"
            parts.append(f"| `{section}{name}` | {default} | {about} |\n")
    return "".join(parts)
