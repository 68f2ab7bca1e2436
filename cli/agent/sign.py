"""`sluice sign`: keys, and signatures of documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.output import AsJson, console, errors_told, marked, print_json
from sluice.contracts.errors import InvalidInput
from sluice.trust.signature import SIGNATURE_SUFFIX, make_key
from sluice.trust.signature import sign as sign_document
from sluice.workers.service.submissions import usable_url


def sign(
    file: Annotated[Path | None, typer.Argument(help="What to sign: the very bytes that will be handed in.")] = None,
    key: Annotated[Path, typer.Option(help="The private key: Ed25519, PKCS #8 in PEM.")] = Path("sluice-key.pem"),
    key_id: Annotated[
        str | None, typer.Option(help="The key's name in trust.keys. Default: its file's name without the ending.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="The url or file_path under which it will be submitted; none for a file that is ingested."),
    ] = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="Make the key; prints the line for sluice.toml.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign a document, so that its origin can be trusted.

    Writes FILE.sig, which `sluice ingest FILE` reads; a submission carries its content as `signature`.
    """
    with errors_told(as_json=as_json):
        name = key_id or key.stem
        if new_key:
            _tell_new_key(name, make_key(key), key, as_json=as_json)
            if file is None:
                return
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
        if as_json:
            print_json({"file": str(target), "signature": signature})
        else:
            console.print(f"wrote {marked(target)}", highlight=False, soft_wrap=True)


def _tell_new_key(name: str, public: str, path: Path, *, as_json: bool) -> None:
    line = f'keys = {{ "{name}" = "{public}" }}'
    if as_json:
        print_json({"key": str(path), "key_id": name, "public_key": public})
        return
    console.print(f"wrote {marked(path)}; in sluice.toml, under [trust]:", highlight=False, soft_wrap=True)
    console.print(marked(line), highlight=False, soft_wrap=True)
