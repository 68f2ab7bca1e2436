"""Re-exports the values of an iteration from `contracts.memory`, where they are defined."""

from sluice.contracts.memory.model import DecisionEntry as DecisionEntry
from sluice.contracts.memory.model import ErrorEntry as ErrorEntry
from sluice.contracts.memory.model import ErrorType as ErrorType
from sluice.contracts.memory.model import FileAction as FileAction
from sluice.contracts.memory.model import FileTouched as FileTouched
from sluice.contracts.memory.model import IterationOutcome as IterationOutcome
from sluice.contracts.memory.model import IterationRecord as IterationRecord
from sluice.contracts.memory.model import ModelTier as ModelTier
