"""Questions in Cypher about a published graph: by people, by agents, never trusted.

A question passes three doors. `guard` parses it and writes it anew from the parts that are allowed: what it does not
know does not reach an engine. `run` hands it to a process that lives for this question alone, and `disk.jail` locks
that process up before it opens the file: no network, no other file, no time and no memory without a bound. The engine
itself is opened for reading only. `engine_file` writes the file beside each generation; `schema` names what is in it.
"""
