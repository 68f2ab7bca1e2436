"""Metrics of the profiles of domains: what the answers of marketing and of code cite."""

from __future__ import annotations

from sluice.otel.metrics.registry import SHARES, counter, histogram

CITED_SENTIMENT = counter("sluice_cited_sentiment_total", "Cited passages by their tone, where it is read.", "label")
CITED_DISCLOSURES = counter(
    "sluice_cited_disclosures_total", "Cited passages that speak for a brand, by whether they say so.", "status"
)
CITED_CLAIMS = counter("sluice_cited_claims_total", "Claims in cited passages that need proof.")
CHANNEL_DIVERSITY = histogram(
    "sluice_channel_diversity", "How varied the sources of an answer are, from 0 to 1.", SHARES, "profile"
)
VOICE_COVERAGE = histogram(
    "sluice_voice_coverage", "Share of the brands asked about that an answer's passages name.", SHARES, "profile"
)
CITED_CODE = counter("sluice_cited_code_total", "Cited passages with code, by the policy of code samples.", "policy")
