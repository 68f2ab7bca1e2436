"""What PostgreSQL's tools are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import make_url

from sluice.ledger import backup


@pytest.mark.parametrize("url", ["postgresql+psycopg://me:s3cret@db/x", "postgresql+psycopg://me@db/x?password=s3cret"])
def test_the_password_is_in_the_environment_and_in_no_argument(url: str, tmp_path: Path) -> None:
    tool = tmp_path / "pg_dump"
    tool.write_text('#!/bin/sh\necho "$@" and $PGPASSWORD\n')
    tool.chmod(0o700)
    assert backup._run(make_url(url), [str(tool), "-v"]) == "--dbname=postgresql://me@db/x -v and s3cret\n"  # noqa: SLF001
