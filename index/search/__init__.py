"""From a question to an answer: candidates, fusion, reranking, selection, citations."""
