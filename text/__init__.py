"""Operations on text for several packages: normalising, hidden characters, disguises, words, stems, BM25.

It imports nothing of Sluice. Every package may use it.
"""
