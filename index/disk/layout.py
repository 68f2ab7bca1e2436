"""Where a corpus keeps its files, under the root that is handed in.

<root>/<corpus>/
    journal/00000000000000000001.log     the truth: append-only segments, named by first offset
    generations/g00000001-<hash>/        complete, immutable, verifiable views
    CURRENT -> generations/g0000000…     the pointer that queries follow
    HELD                                 what a rollback leaves out on purpose
    working/                             the writer's own view; disposable
    writer.lock  epoch                   one writer, and the number that fences off an older one
    handover                             whoever holds its lock asks the writer to let go (`index.disk.handover`)
<root>/.reindex-<corpus>/<corpus>/       the corpus with the vectors of another model, being built
(`index.local.reindex`)

A folder of `<root>` whose name begins with a dot is no corpus.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contracts.base import CORPUS_NAME
from contracts.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CorpusLayout:
    """The paths of one corpus. Raises `InvalidInput` for a name that could leave its folder."""

    root: Path
    corpus: str

    def __post_init__(self) -> None:
        if not CORPUS_NAME.fullmatch(self.corpus):
            raise InvalidInput("corpus", f"{self.corpus!r} is not a corpus name", f"match {CORPUS_NAME.pattern}")

    @property
    def folder(self) -> Path:
        """The corpus's folder."""
        return self.root / self.corpus

    @property
    def journal(self) -> Path:
        """The folder of journal segments."""
        return self.folder / "journal"

    @property
    def generations(self) -> Path:
        """The folder of generations."""
        return self.folder / "generations"

    @property
    def current(self) -> Path:
        """The pointer to the current generation."""
        return self.folder / "CURRENT"

    @property
    def held(self) -> Path:
        """Which generation was rolled back to, and the journal offset that it leaves out on purpose."""
        return self.folder / "HELD"

    @property
    def working(self) -> Path:
        """The writer's own view."""
        return self.folder / "working"

    @property
    def lock(self) -> Path:
        """The file whose lock makes the one writer."""
        return self.folder / "writer.lock"

    @property
    def epoch(self) -> Path:
        """The file with the last writer's epoch."""
        return self.folder / "epoch"

    @property
    def handover(self) -> Path:
        """The file whose lock asks the writer to let go."""
        return self.folder / "handover"

    @property
    def beside(self) -> Path:
        """The folder in which the corpus is built anew."""
        return self.root / f".reindex-{self.corpus}"


def corpora(root: Path) -> tuple[str, ...]:
    """The names of the corpora under `root`, sorted: every folder that holds a journal, but for the hidden ones."""
    if not root.is_dir():
        return ()
    found = (path for path in root.iterdir() if not path.name.startswith("."))
    return tuple(sorted(path.name for path in found if (path / "journal").is_dir()))
