"""Whose memory is meant: a project's, of one feature."""

from __future__ import annotations

from sluice.contracts.base import Value
from sluice.contracts.memory.names import FeatureName, ProjectPath


class MemoryScope(Value):
    """One feature of one project."""

    project: ProjectPath
    feature: FeatureName
