"""Build the manual as a site: `make docs` writes `dist/docs/`, and fails where a link or an anchor leads nowhere.

The pages are README, ARCHITECTURE, docs/ and the reference of the settings. A link to a file that is no page becomes
its text. The site loads nothing from elsewhere, which is checked.
"""

# ruff: noqa: T201, S603 (it talks to a terminal and runs a program)

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from process import CACHE, ROOT

from sluice.api.manual import SECTIONS, pages, text_of

ZENSICAL = CACHE / "docs" / "bin" / "zensical"
SOURCE, BUILT, SITE = CACHE / "docs-source", "site", ROOT / "dist" / "docs"
TOP = {"README.md": "index.md", "ARCHITECTURE.md": "ARCHITECTURE.md"}
"""Pages of the repository's top folder, and their names in the site."""
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
LOADED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"|class="mermaid"')
"""What a browser would fetch from elsewhere; for a diagram the theme fetches what draws it."""


def main() -> int:
    """Build the site and return the exit code."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    texts = {f"docs/{name}": text_of(name) for name in pages()}
    texts |= {name: (ROOT / name).read_text("utf-8") for name in TOP}
    for name, text in texts.items():
        path = SOURCE / "pages" / TOP.get(name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINK.sub(lambda link, folder=Path(name).parent: linked(link, folder, texts), text), "utf-8")
    shutil.copytree(ROOT / "docs" / "figures", SOURCE / "pages" / "docs" / "figures")
    (SOURCE / "mkdocs.yml").write_text(json.dumps(configuration()))
    built = subprocess.run([ZENSICAL, "build", "--strict", "-f", SOURCE / "mkdocs.yml"], cwd=SOURCE, check=False)
    if built.returncode:
        return built.returncode
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(SOURCE / BUILT, SITE)
    foreign = [f"{path}: {found[0]}" for path in SITE.rglob("*.html") if (found := LOADED.search(path.read_text()))]
    print("\n".join(foreign) or f"{len(texts)} pages in {SITE.relative_to(ROOT)}")
    return 1 if foreign else 0


def linked(link: re.Match[str], folder: Path, texts: dict[str, str]) -> str:
    """Return the link by the names of the site; its text where it leads to no page."""
    text, target, anchor = link.groups()
    named = (ROOT / folder / target).resolve().relative_to(ROOT).as_posix()
    if named in texts or named.startswith("docs/figures/"):
        return f"[{text}]({target.replace('README.md', 'index.md')}{anchor or ''})"
    return text


def configuration() -> dict[str, object]:
    """Return the configuration, which is plain MkDocs. JSON is YAML."""
    folders = {folder: [name for name in pages() if name.rpartition("/")[0] == folder] for folder in SECTIONS}
    nav = [{title: [f"docs/{name}" for name in folders[folder]]} for folder, title in SECTIONS.items()]
    return {
        "site_name": "Sluice",
        "docs_dir": "pages",
        "site_dir": BUILT,
        "theme": {"name": "material", "font": False},
        "markdown_extensions": ["admonition", "tables", "pymdownx.superfences", "pymdownx.highlight", {"toc": {}}],
        "nav": [*TOP.values(), *nav],
    }


if __name__ == "__main__":
    sys.exit(main())
