"""An agent with memory and cited answers: `python agent.py QUESTION`. Needs `sluice-client` and a running instance.

Without a model it quotes its best source. MODEL_URL (as `https://api.openai.com/v1`), MODEL and MODEL_KEY name one.
"""

import os
import sys

import httpx2

from sluice_client import SluiceClient

PROJECT, FEATURE = "examples", "agent"


def say(messages: list[dict[str, str]]) -> str:
    """Ask the model, by the interface that OpenAI's and most other servers have."""
    request = {"model": os.environ["MODEL"], "messages": messages}
    headers = {"Authorization": f"Bearer {os.environ.get('MODEL_KEY', 'none')}"}
    response = httpx2.post(f"{os.environ['MODEL_URL']}/chat/completions", json=request, headers=headers, timeout=60)
    return str(response.raise_for_status().json()["choices"][0]["message"]["content"])


def answer(sluice: SluiceClient, question: str) -> str:
    """Answer from cited passages and from what was learned before, then remember what answered."""
    remembered = sluice.memory_prompt(PROJECT, FEATURE, query=question).text
    run = sluice.run(sluice.gate(question, prompt="rag").run_id)
    if not (run.answer and run.answer.citations):
        held_back = [f"{gap.subject}: {gap.lifted_by or gap.reason}" for gap in run.missing]
        return "\n".join(["I found nothing that answers this.", *held_back])

    best = run.answer.chunks[0]
    if "MODEL_URL" in os.environ:
        messages = [{"role": one.role, "content": one.content} for one in run.prompt]
        said = say([{"role": "system", "content": remembered}, *messages])
    else:
        said = f"{best.text} [1]"
    used = [one for one in run.answer.citations if f"[{one.number}]" in said]
    sources = [f"[{one.number}] {one.source}, trust {one.trust}" for one in used]

    sluice.feedback(run.run_id, outcome="success" if used else "failure", chunk_ids_used=[one.chunk_id for one in used])
    for one in used[:1]:
        sluice.add_learning(f"{one.source} answers: {question}", PROJECT, FEATURE, reason=f"cited in {run.run_id}")
    return "\n".join([said, "", *sources, "", "Known before:", remembered or "nothing"])


if __name__ == "__main__":
    with SluiceClient() as client:
        print(answer(client, " ".join(sys.argv[1:])))
