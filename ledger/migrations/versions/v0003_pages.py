"""Version 3: pages are remembered, so that what did not change is not read twice.

The new table begins empty: every page that was crawled before is read once more.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Bring version 2 to version 3."""
    op.create_table(
        "pages",
        sa.Column("corpus", sa.Text, primary_key=True),
        sa.Column("url_sha256", sa.LargeBinary, primary_key=True),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("is_held", sa.Integer, nullable=False, server_default="0"),
        sa.Column("read_as", sa.Text, nullable=False, server_default=""),
        sa.Column("rendered", sa.Integer, nullable=False, server_default="0"),
        sa.Column("fetched_at", sa.Float, nullable=False),
        sa.Column("body_sha256", sa.Text, nullable=False),
        sa.Column("etag", sa.Text),
        sa.Column("last_modified", sa.Text),
        sa.Column("final_url", sa.Text, nullable=False),
        sa.Column("canonical_url", sa.Text),
        sa.Column("links", sa.LargeBinary, nullable=False),
        sa.Column("nosnippet", sa.Integer, nullable=False, server_default="0"),
        sa.Column("withdrawn_by", sa.Text),
    )
    op.create_index("pages_of_document", "pages", ["corpus", "document_id"])
    op.create_index("pages_fetched", "pages", ["fetched_at"])
