"""What the server answers. Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit.

A field that this version does not know is kept, and a value that it does not know is allowed, so that a client
outlives its server's next version. The modules are imported when a name of theirs is first used.
"""

# fmt: off
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice_client.models.base import *
    from sluice_client.models.answers import *
    from sluice_client.models.graph import *
    from sluice_client.models.learning import *
    from sluice_client.models.memory import *
    from sluice_client.models.operations import *

_NAMES = {
    "base": "Event",
    "answers": "Answer AnswerInsights BudgetState Channels Citation Claim CodeSample Contribution Control Decision Defence Disclosure DocumentText EdgeType Explanation Finding Gap GateCheck GraphPath GraphUse Inspection Lines ModelUse NodeLabel Origin PassageInsights PathStep Plan PolicyState PrivateSpan PromptMessage Provenance Retrieval RetrievalMetadata RetrievedChunk RunAccepted RunSummary RunTrace RunView SearchAim Sentiment Spend StaleCitation Strategy TrustFactors TrustScore Verdict Veto Voice",
    "memory": "CheckRun DecisionEntry ErrorEntry ErrorType FeatureLearning FileAction FileTouched IterationAccepted IterationOutcome IterationRecord LearningResult LearningSource LearningState Learnings MemoryProof ModelTier PromptBlock RagStatus Recall Recollection",
    "graph": "CypherResult GraphProof GraphServerHealth GraphStatus Linked LinkedDocument NearDocument NearLink NearestDocuments NeighbourView Neighbours NodeView",
    "learning": "AbReport ArmSize Evaluation EvaluationRow Interval MetricComparison PlanDifference PlanDifferences Rebuilt Rollout RolloutStep StageVerdict Summary",
    "operations": "DeadLetterFilter DeadLetterGroup DeadLetterSummary DeadLetterView DefenceView Filters FlagResult FlagState ForgetProof ForgottenEntry GateProfile Health HealthCheck HostView Meant OperatorAction PastPayload Payload PlannedGroup Purged QuarantinedChunk QuarantinedText Released ReplayPlan ReplayView Replayed Selection StageView Trace",
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"{__name__} has no {name}")
