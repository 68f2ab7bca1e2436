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
    from sluice_client.models.memory import *
    from sluice_client.models.operations import *

_NAMES = {
    "base": "Event Page",
    "answers": "Answer AnswerInsights BatchResult BatchStatus BudgetState Channels ChunkView Citation Claim CodeSample Contribution Control CorpusSearched Decision Defence Disclosure DocumentCount DocumentText DocumentView EdgeType EventsPart EvidenceView Explanation Finding FiredRule Gap GateCheck GraphPath GraphUse Inspection JoinedRetrieval Lines LinkView Mapped ModelUse NextStep NodeLabel Origin OtherSource PassageInsights PathStep Plan PlanSummary PolicyState PrivateSpan PromptMessage Provenance Retrieval RetrievalMetadata RetrievedChunk RunAccepted RunSummary RunView Scraped ScrapedPage SearchAim Sentiment ShownFinding Span Spend StaleCitation Strategy Timeline TimelineCut TimelineRow TimelineSum TrustFactors TrustPart TrustScore Upload UploadedFile Verdict Veto Voice",
    "memory": "CheckRun DecisionEntry ErrorEntry ErrorType FeatureLearning FileAction FileTouched IterationAccepted IterationOutcome IterationRecord LearningResult LearningSource LearningState Learnings MemoryProof ModelTier PromptBlock RagStatus Recall Recollection RememberedProject",
    "operations": "AbReport AgeGroup ApiKey ArmSize Artefact CorpusPolicyView CorpusSettings CorpusState CorpusView CrawlDecision CypherResult DeadLetterFilter DeadLetterGroup DeadLetterSummary DeadLetterView DefenceView Evaluation EvaluationRow ExplainedCrawl ExportManifest Filters FlagResult FlagState ForgetProof ForgottenEntry GateProfile Generation GraphProof GraphServerHealth GraphStatus Health HealthCheck HostState HostView Interval LetterAttempt Linked LinkedDocument MadeKey MarkedPassage MetricComparison NearDocument NearLink NearestDocuments NeighbourView Neighbours NodeView OpenRun OperatorAction Overview PassedEvent PastPayload Payload PlanDifference PlanDifferences PlanHour PlannedGroup PromptView Purged QuarantinedChunk QuarantinedText Rebuilt RecordedAction Redelivered Released ReplayPlan ReplayView Replayed RetrievalStats RobotsFile Rollout RolloutStep Scaled Schedule Selection SettingView Spending StageBacklog StageFigures StageMinute StageNow StageVerdict StageView Summary Trace Webhook WebhookDelivery WebhookMade WebhookSecret WouldForget",
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names.split():
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"{__name__} has no {name}")
