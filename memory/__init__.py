"""An agent's memory: iterations in, observations out, each feature by itself. The journal is the truth."""
