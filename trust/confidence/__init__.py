"""How probably a passage answers a question, and what to say where that is not much.

coverage   the share of the question's words that a passage holds, each by its rarity
formula    log-odds of that share, of the cosine, and of the size of the corpus: fitted by `bench.confidence`
adjust     what no labelled collection shows: trust, age, independent sources, a language model's own word
judge      all of it over a retrieval; passages below the floor are dropped
limits     the sentence for an answer of low confidence
"""
