"""Tables for trust: quarantine, forgotten documents, citations."""
