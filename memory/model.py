"""The values of an iteration, by the names that the rest of memory has them under; they stand in `contracts.memory`."""

from sluice.contracts.memory.model import DecisionEntry as DecisionEntry
from sluice.contracts.memory.model import ErrorEntry as ErrorEntry
from sluice.contracts.memory.model import ErrorType as ErrorType
from sluice.contracts.memory.model import FileAction as FileAction
from sluice.contracts.memory.model import FileTouched as FileTouched
from sluice.contracts.memory.model import IterationOutcome as IterationOutcome
from sluice.contracts.memory.model import IterationRecord as IterationRecord
from sluice.contracts.memory.model import ModelTier as ModelTier
