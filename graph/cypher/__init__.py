"""Cypher queries on a published graph: by people and by agents, never trusted.

A query passes three stages. `guard` parses it and writes it anew from allowed parts, so nothing unknown reaches an
engine. `run` hands it to a process that lives for this query alone, and `disk.jail` locks that process up before it
opens the file: no network, no other file, no unbounded time or memory. The engine itself is opened for reading only.
`engine_file` writes the file beside each generation; `schema` names its contents.
"""
