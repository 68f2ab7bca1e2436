"""`sluice init` writes a file of all settings, to edit."""

from __future__ import annotations

import json
import os
import tempfile
from importlib.resources import files
from pathlib import Path

from sluice.cli.command import Shown, alone
from sluice.contracts.errors import Conflict
from sluice.workers.data_dir import CONFIG_FILE, CONFIG_VARIABLE, DATA_FOLDER
from sluice.workers.setting_names import names_of
from sluice.workers.settings import Settings


@alone
def init(path: Path | None = None, force: bool = False) -> Shown:
    """Write a sluice.toml with every setting, its default and its reason."""
    target = path or Path(os.environ.get(CONFIG_VARIABLE, CONFIG_FILE))
    folder = target.absolute().parent
    _write(target, settings_for(folder), replace=force)
    count = len(names_of(Settings))
    told = f"wrote {target} with {count} settings, all at their defaults\nits data will be in {folder / DATA_FOLDER}"
    return Shown({"path": str(target.absolute()), "settings": count}, told)


def commented_settings() -> str:
    """Return the `sluice.toml` of this package: every setting with its meaning, commented out."""
    return files("sluice.cli").joinpath(CONFIG_FILE).read_text("utf-8")


def settings_for(folder: Path) -> str:
    """Return it with the data directory of an instance in `folder`, absolute: commands find it from anywhere."""
    placeholder = f'#data_dir = "{DATA_FOLDER}"'
    return commented_settings().replace(placeholder, f"data_dir = {json.dumps(str(folder / DATA_FOLDER))}")


def _write(target: Path, text: str, *, replace: bool) -> None:
    """Write the file whole or not at all, readable by its owner alone: users may put keys into it. Raises `Conflict` if
    it exists and `replace` is not set."""
    descriptor, partial = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if replace:
            os.replace(partial, target)
        else:
            os.link(partial, target)  # unlike a rename, a link never replaces
    except FileExistsError as error:
        raise Conflict(f"{target} is there already; --force replaces it") from error
    finally:
        Path(partial).unlink(missing_ok=True)
