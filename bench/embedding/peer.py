"""sentence-transformers as its manual shows: `python peer.py MODEL_FOLDER THREADS`, a conversation in JSON lines.

Runs in an environment of its own and imports nothing of Sluice. A line of input is `{"texts": PATH, "vectors": PATH
or null}`, the first a JSON list of texts, the second where to keep their vectors as .npy; the line of output that
answers it says the `cpu_seconds` of `encode`. The first line of output says that the model is loaded.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer


def main() -> None:
    """Load, then answer until the input ends."""
    torch.set_num_threads(int(sys.argv[2]))
    model = SentenceTransformer(sys.argv[1], device="cpu", local_files_only=True)
    say(max_seq_length=model.max_seq_length)
    for line in sys.stdin:
        asked = json.loads(line)
        texts = json.loads(Path(asked["texts"]).read_text())
        started = time.process_time()
        vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        spent = time.process_time() - started
        if asked["vectors"]:
            np.save(asked["vectors"], vectors)
        say(cpu_seconds=spent)


def say(**fields: object) -> None:
    """One line, at once."""
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    main()
