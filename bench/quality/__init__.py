"""How good retrieval is on public test collections, against a plain baseline measured in the same run."""
