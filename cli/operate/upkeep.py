"""`sluice keys` and `sign`: API keys, and signatures of documents. `prune`: the ledger's upkeep."""

from __future__ import annotations

import getpass
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import cast

from sluice.cli.command import Shown, ahead, alone, chosen, needed, on_disk, print_shown, table
from sluice.cli.output import configured, print_table, say
from sluice.contracts.errors import InvalidInput
from sluice.ledger.database import Database
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.migrate import install
from sluice.trust.signature import SIGNATURE_SUFFIX, make_key
from sluice.trust.signature import sign as sign_document
from sluice.workers.context import Context
from sluice.workers.service.callers import ApiKeys, Role
from sluice.workers.service.documents import usable_url


@on_disk
def keys(
    context: Context,
    name: str | None = None,
    create: bool = False,
    revoke: bool = False,
    role: str = "agent",
    corpus: list[str] | None = None,
    expires: str | None = None,
    rate: int | None = None,
) -> Shown:
    """API keys: list them, create one, revoke one."""
    known, action = ApiKeys(context.ledger), chosen(create=create, revoke=revoke)
    if action == "create":
        end, of_role = expires and ahead(expires), cast(Role, role)  # it checks the role
        key_id, key = known.create(needed("NAME", name, action), of_role, corpus or (), end or None, rate)
        return Shown({"id": key_id, "key": key}, f"{key_id}  {key}\nThis is the only time that the key is shown.")
    if action == "revoke":
        changed = known.revoke(needed("NAME", name, action))
        return Shown({"id": name, "revoked": changed}, f"{name} {'is revoked' if changed else 'was revoked before'}")
    return table(
        "keys",
        known.list(),
        "id name role corpora created=created_at ends=expires_at revoked=revoked_at rate=requests_per_minute",
    )


@alone
def sign(
    file: Path | None = None,
    key: Path = Path("sluice-key.pem"),
    key_id: str | None = None,
    source: str | None = None,
    new_key: bool = False,
    as_json: bool = False,
) -> Shown:
    """Sign a document, so that its origin can be trusted.

    Writes FILE.sig, which `sluice ingest FILE` reads; a submission carries its content as `signature`.
    """
    name = key_id or key.stem
    if new_key:
        public = make_key(key)
        told = f'wrote {key}; in sluice.toml, under [trust]:\nkeys = {{ "{name}" = "{public}" }}'
        made = Shown({"key": str(key), "key_id": name, "public_key": public}, told)
        if file is None:
            return made
        print_shown(made, as_json=as_json)
    if file is None:
        raise InvalidInput("file", "nothing to sign", "name a file, or make a key with --new-key")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be read: {error.strerror or error}") from error
    claimed = usable_url("source", source) if source and "://" in source else source
    signature, _ = sign_document(key, name, content, claimed)
    target = file.with_name(file.name + SIGNATURE_SUFFIX)
    target.write_text(signature.model_dump_json() + "\n", encoding="utf-8")
    return Shown({"file": str(target), "signature": signature}, f"wrote {target}")


@alone
def prune(before: datetime, dry_run: bool = False) -> Shown:
    """Remove runs that ended long ago from the ledger, and old exports of corpora."""
    settings = configured()
    with closing(Database(settings.ledger_location)) as database:
        with database.installing() as connection:
            install(connection)
        pruning = Pruning(database)
        found = asdict(pruning.count(before) if dry_run else pruning.prune(before, getpass.getuser()))
    with closing(Context(settings)) as context:
        old = context.artefacts.ids(before.timestamp())
        for one in () if dry_run else old:
            context.artefacts.remove(one)
        if not dry_run:
            context.artefacts.remove_unfinished(before.timestamp())
    found["artefacts"] = len(old)

    def draw() -> None:
        say(f"what ended before {before:%Y-%m-%d %H:%M} UTC {'would go' if dry_run else 'is gone'}:")
        print_table("rows", ("of", "rows"), found.items())

    return Shown(found | {"before": before, "dry_run": dry_run}, draw)
