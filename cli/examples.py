"""Examples of every command, as its `--help` shows them."""

from __future__ import annotations

EXAMPLES = (
    'ask "What happens when a worker dies?"',
    'ask --why --seed https://example.org/status "Is the service up?"',
    'query --top-k 3 --strategy bm25 "lease heartbeat"',
    "ingest docs/ README.md",
    "ingest --corpus papers corpus.jsonl",
    "crawl --pages 20 --depth 1 https://example.org/docs/",
    "crawl --explain https://example.org/docs/",
    "runs",
    "runs run_01a2",
    "cancel run_01a2",
    "trace run_01a2",
    "dead list --stage crawl --since 2h",
    "dead show dl_01a2",
    "dead edit dl_01a2 --file payload.json",
    "dead replay dl_01a2",
    "dead replay --stage crawl --since 1d --dry-run",
    "dead purge --reason policy --dry-run",
    "dead replays",
    "dead pause rp_01a2",
    "dead resume rp_01a2",
    "dead abort rp_01a2",
    "stages list",
    'stages pause crawl --why "the site asked for it"',
    "stages resume crawl",
    "hosts --days 7",
    "snapshot list",
    "snapshot verify --corpus default",
    "snapshot rollback --corpus default",
    "snapshot push --store s3://bucket/prefix",
    "snapshot pull --store s3://bucket/prefix",
    "rebuild --prove",
    "reindex --corpus default",
    "freshness --exec ./embed-plan",
    "freshness --prior monday.jsonl --current tuesday.jsonl --out plans/",
    "gate explain run_01a2",
    "gate profiles",
    "eval cases.jsonl",
    "eval run --questions 300 scifact/",
    "eval compare before.json after.json",
    "keys create ci --role operator",
    "keys list",
    "keys revoke key_01a2",
    "migrate --dry-run",
    "prune --before 30d --dry-run",
    "init --path /etc/sluice/sluice.toml",
    "doctor",
    "up --scale crawl=8",
    "worker crawl --concurrency 8",
    "reconcile",
    "api",
    "version --json",
)


def examples_of(*command: str) -> str:
    """The lines below the help of a command (`dead`, `list`) or of a group (`dead`), as Markdown."""
    found = [example for example in EXAMPLES if example.split()[: len(command)] == [*command]]
    return "\n\n".join(["Examples:" if len(found) > 1 else "Example:", *(f"`sluice {one}`" for one in found)])
