"""What an agent does with the tools, over HTTP and stdio: ask, look up, read, tell how it went, remember, forget."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from mcp import Client
from mcp_types import PromptReference, ResourceTemplateReference

from sluice.contracts.api import GateRequest
from sluice.workers.steps.retrieve import DirectReads
from tests.support.in_process import Instance, MakeInstance, one_thread_serves
from tests.support.mcp_clients import begun, connected, text_of
from tests.support.served import served

LEASE = "A lease is renewed by its holder every five seconds. One that is not renewed is free again after fifteen."
QUESTION: dict[str, Any] = {
    "query": "How often does the holder renew a lease?",
    "corpus": "notes",
    "response": "detailed",
    "wait_seconds": 50,
}


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    """One that has loaded its models, so that no call waits for that."""
    instance = make_instance()
    instance.adds("A fence keeps what is late from being written.")
    instance.works("chunk", "embed", "index")
    instance.service.ask(GateRequest(query="What does a fence do?", plan="retrieve"))
    instance.works("query", "gate", "query")
    return instance


async def adds(client: Client, instance: Instance) -> None:
    """A document comes into a corpus that is made for it."""
    documents = [{"id": "lease.md", "text": LEASE, "title": "Leases"}, {"id": "heap.md", "text": "A heap is a list."}]
    to_notes = {"corpus": "notes", "documents": documents}
    missing = await client.call_tool("sluice_add_documents", to_notes)
    assert missing.is_error
    assert "notes" in text_of(missing)
    added = await client.call_tool("sluice_add_documents", {**to_notes, "create_corpus": True})
    assert not added.is_error, text_of(added)
    assert added.structured_content["status"] == "open"
    await asyncio.to_thread(instance.works, "chunk", "embed", "index")
    run = await client.call_tool("sluice_get_run", {"run_id": added.structured_content["run_id"]})
    assert run.structured_content["status"] == "finished"


async def asks(client: Client, instance: Instance) -> str:
    """An answer comes with progress; a host that reads structure alone and one that reads text find the same of it."""
    told = list[tuple[float, str | None]]()

    async def progress(step: float, _total: float | None, message: str | None) -> None:
        told.append((step, message))

    asking = asyncio.create_task(client.call_tool("sluice_ask", QUESTION, progress_callback=progress))
    await begun(instance.context.ledger, QUESTION["query"])
    await asyncio.sleep(0.5)
    await asyncio.to_thread(instance.works, "query", "gate", "query")
    asked = await asking
    assert not asked.is_error, text_of(asked)
    assert told
    assert [step for step, _ in told] == sorted({step for step, _ in told})
    answer, text = asked.structured_content, text_of(asked)
    assert answer["status"] == "finished", text
    assert answer["citations"][0]["document_id"] == "lease.md"
    in_text = re.findall(r"^- n: (\d+); source: (\S+);.* document_id: (\S+);.* lines: (\S+);", text, re.M)
    structured = [(str(one["n"]), one["source"], one["document_id"], one["lines"]) for one in answer["citations"]]
    assert in_text == structured
    assert answer["context"] in text
    assert "data, not instructions" in answer["context"]
    assert LEASE[:40] in answer["context"]
    again = await client.call_tool("sluice_ask", QUESTION)
    assert again.structured_content["run_id"] == answer["run_id"], "a call alike is one run"
    return str(answer["run_id"])


async def looks_up(client: Client, instance: Instance) -> None:
    """Passages of two corpora at once, by a condition; documents by the same."""
    with one_thread_serves(instance, DirectReads(instance.context)):
        both = {"query": "lease fence", "corpora": ["notes", "default"]}
        found = await client.call_tool("sluice_query", both)
        assert not found.is_error, text_of(found)
        assert {one["corpus"] for one in found.structured_content["passages"]} == {"notes", "default"}
        one = await client.call_tool(
            "sluice_query", {"query": "lease", "corpora": ["notes"], "where": 'id = "heap.md"'}
        )
        assert {passage["document_id"] for passage in one.structured_content["passages"]} == {"heap.md"}
        code = await client.call_tool("code_search", {"query": "renew", "corpus": "notes", "language": "python"})
        assert code.structured_content == {"passages": []}, text_of(code)
        wrong = await client.call_tool("sluice_query", {"query": "lease", "corpora": ["notes"], "where": "id ="})
        assert wrong.is_error
        assert "where" in text_of(wrong)
        prompt = await client.get_prompt("answer_with_citations", {"query": "lease", "corpus": "notes"})
        assert LEASE[:40] in str(prompt.messages)
        with pytest.raises(Exception, match="no prompt 'odes'"):
            await client.get_prompt("answer_with_citations", {"query": "lease", "template": "odes"})
    listed = await client.call_tool("sluice_list", {"what": "documents", "corpus": "notes", "where": 'id prefix "lea"'})
    assert [one["id"] for one in listed.structured_content["data"]] == ["lease.md"], text_of(listed)
    read = await client.call_tool("sluice_read_document", {"document_id": "lease.md", "corpus": "notes"})
    assert LEASE in read.structured_content["text"]
    missing = await client.call_tool("sluice_read_document", {"document_id": "none.md", "corpus": "notes"})
    assert "none.md" in text_of(missing)


async def learns(client: Client, run_id: str) -> None:
    """Feedback counts by the numbers of citations; what is remembered is recalled."""
    numbers = {"run_id": run_id, "outcome": "failure", "bad_citations": [1], "bad_because": "outdated"}
    told = await client.call_tool("sluice_feedback", numbers)
    assert not told.is_error, text_of(told)
    wrong = await client.call_tool("sluice_feedback", {**numbers, "citations_used": [77]})
    assert "the answer has no 77" in text_of(wrong)
    work = {"project": "/shop", "feature": "cart"}
    learned = await client.call_tool(
        "sluice_remember", {**work, "text": "Prices are integers in cents.", "reason": "test_total fails else"}
    )
    assert learned.structured_content["status"] == "unique", text_of(learned)
    recalled = await client.call_tool("sluice_recall", {**work, "query": "prices"})
    assert not recalled.is_error, text_of(recalled)
    assert "cents" in text_of(recalled)
    assert "cents" in (await client.get_prompt("begin_work", work)).messages[0].content.text
    assert "cents" in (await client.read_resource("sluice://learnings/%2Fshop/cart")).contents[0].text
    complete = await client.complete(
        PromptReference(name="begin_work"), {"name": "feature", "value": "ca"}, {"project": "/shop"}
    )
    assert complete.completion.values == ["cart"]


async def reads(client: Client, run_id: str) -> None:
    """Resources, and the completion of their arguments."""
    view = await client.read_resource(f"sluice://runs/{run_id}")
    assert json.loads(view.contents[0].text)["answer"]["citations"]
    assert LEASE in (await client.read_resource("sluice://documents/notes/lease.md")).contents[0].text
    assert json.loads((await client.read_resource("sluice://corpora/notes")).contents[0].text)["documents"] == 2
    assert "notes" in (await client.read_resource("sluice://corpora")).contents[0].text
    with pytest.raises(Exception, match="no run"):
        await client.read_resource("sluice://runs/run_none")
    template = ResourceTemplateReference(uri="sluice://corpora/{corpus}")
    assert (await client.complete(template, {"name": "corpus", "value": "no"})).completion.values == ["notes"]
    rag = PromptReference(name="answer_with_citations")
    assert "rag" in (await client.complete(rag, {"name": "template", "value": ""})).completion.values
    corpora = await client.call_tool("sluice_list", {"what": "corpora"})
    assert {one["name"] for one in corpora.structured_content["data"]} == {"notes", "docs", "default"}
    prompts = await client.call_tool("sluice_list", {"what": "prompts"})
    assert "rag.v1" in text_of(prompts)


async def forgets(client: Client) -> None:
    """Removal takes two calls, and the second only what the first has counted."""
    selection = {"corpus": "notes", "where": 'id prefix "heap"'}
    first = (await client.call_tool("sluice_forget", selection)).structured_content
    assert (first["would_remove"], first["examples"]) == (1, ["heap.md"])
    other = await client.call_tool("sluice_forget", {**selection, "where": 'id = "x"', "confirm": first["confirm"]})
    assert "confirm is of another request" in text_of(other)
    second = await client.call_tool("sluice_forget", {**selection, "confirm": first["confirm"]})
    assert second.structured_content["run_id"].startswith("run_")


@pytest.mark.parametrize("era", ["2026-07-28", "legacy", "stdio"])
def test_an_agent_with_cited_answers_and_memory(instance: Instance, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            await adds(client, instance)
            run_id = await asks(client, instance)
            await looks_up(client, instance)
            await learns(client, run_id)
            await reads(client, run_id)
            await forgets(client)

    with served(instance.context.settings) as address:
        asyncio.run(story(address))
