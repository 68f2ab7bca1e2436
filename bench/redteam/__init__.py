"""The attacks of `sluice eval redteam`: how they are made. The ones that are shipped stand in `trust/redteam.jsonl`."""
