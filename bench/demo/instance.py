"""A whole Sluice for the demonstration, configured as a user would: by a `sluice.toml`."""

from __future__ import annotations

import shutil
from pathlib import Path

import tomlkit

from bench.demo.web import DemoWeb
from tests.support.instance import CHROMIUM, Instance
from tests.support.repository import MODELS


class DemoInstance(Instance):
    """One instance in `folder`, which is emptied first."""

    def __init__(self, folder: Path, web: DemoWeb) -> None:
        super().__init__(folder)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        config = folder / "sluice.toml"
        config.write_text(tomlkit.dumps(self._settings(web)))
        kept = {
            name: value
            for name, value in self.environment.items()
            if name == CHROMIUM or not name.startswith("SLUICE_")
        }
        self.environment = {**kept, "SLUICE_CONFIG": str(config), "COLUMNS": "120"}

    def trace(self, run_id: str) -> str:
        """What `sluice trace` prints; empty when it failed."""
        printed = self.sluice("trace", run_id)
        return printed.stdout if printed.returncode == 0 else ""

    def _settings(self, web: DemoWeb) -> dict[str, object]:
        return {
            "data_dir": str(self.data_dir),
            "instance": "demo",
            "http_port": self.port,
            "search": {"enabled": True, "providers": ["searxng"], "searxng_url": web.search_url},
            "crawl": {"enabled": True, "render": "always", "max_pages": 6, "requests_per_second_per_host": 20.0},
            "egress": {"allow": [f"search={web.host_and_port}", f"crawl={web.host_and_port}"]},
            "embed": {"model_dir": str(MODELS)},
        }
