"""What an agent does with the tools, over HTTP and stdio: ask, read, tell how it went, remember, forget."""

from __future__ import annotations

import asyncio
import json

import pytest

from sluice.contracts.api import GateRequest
from tests.integration.mcp.test_door import connected, text_of
from tests.support.in_process import Instance, MakeInstance
from tests.support.served import served

LEASE = "A lease is renewed by its holder every five seconds. One that is not renewed is free again after fifteen."


@pytest.fixture
def instance(make_instance: MakeInstance) -> Instance:
    """One that has loaded its models, so that no call waits for that."""
    instance = make_instance()
    instance.adds("A fence keeps what is late from being written.")
    instance.works("chunk", "embed", "index")
    instance.service.ask(GateRequest(query="What does a fence do?", plan="retrieve"))
    instance.works("query", "gate", "query")
    return instance


@pytest.mark.parametrize("era", ["2026-07-28", "legacy", "stdio"])
def test_an_agent_with_cited_answers_and_memory(instance: Instance, era: str) -> None:
    async def story(address: str) -> None:
        async with connected(address, era) as client:
            documents = [
                {"id": "lease.md", "text": LEASE, "title": "Leases"},
                {"id": "heap.md", "text": "A heap is a list."},
            ]
            added = await client.call_tool("sluice_add_documents", {"corpus": "docs", "documents": documents})
            assert not added.is_error, text_of(added)
            assert added.structured_content["status"] == "open"
            await asyncio.to_thread(instance.works, "chunk", "embed", "index")
            run = await client.call_tool("sluice_get_run", {"run_id": added.structured_content["run_id"]})
            assert run.structured_content["status"] == "finished"

            told = list[tuple[float, str | None]]()

            async def progress(step: float, _total: float | None, message: str | None) -> None:
                told.append((step, message))

            question = {
                "query": "How often does the holder renew a lease?",
                "corpus": "docs",
                "response": "detailed",
                "wait_seconds": 50,
            }
            asking = asyncio.create_task(client.call_tool("sluice_ask", question, progress_callback=progress))
            await asyncio.sleep(1.5)
            await asyncio.to_thread(instance.works, "query", "gate", "query")
            asked = await asking
            assert not asked.is_error, text_of(asked)
            answer = asked.structured_content
            assert answer["status"] == "finished"
            assert answer["citations"][0]["document_id"] == "lease.md"
            assert all(f"document_id: {one['document_id']}" in text_of(asked) for one in answer["citations"])
            assert answer["context"] in text_of(asked)
            assert "data, not instructions" in answer["context"]
            assert LEASE[:40] in answer["context"]
            assert told
            assert [step for step, _ in told] == sorted({step for step, _ in told})

            read = await client.call_tool("sluice_read_document", {"document_id": "lease.md", "corpus": "docs"})
            assert LEASE in read.structured_content["text"]
            missing = await client.call_tool("sluice_read_document", {"document_id": "none.md", "corpus": "docs"})
            assert missing.is_error
            assert "none.md" in text_of(missing)

            numbers = {"run_id": answer["run_id"], "outcome": "success", "citations_used": [1]}
            assert not (await client.call_tool("sluice_feedback", numbers)).is_error
            wrong = await client.call_tool("sluice_feedback", {**numbers, "citations_used": [77]})
            assert "the answer has no 77" in text_of(wrong)

            work = {"project": "/shop", "feature": "cart"}
            learned = await client.call_tool(
                "sluice_remember", {**work, "text": "Prices are integers in cents.", "reason": "test_total fails else"}
            )
            assert learned.structured_content["state"] == "unique", text_of(learned)
            recalled = await client.call_tool("sluice_recall", {**work, "query": "prices"})
            assert not recalled.is_error, text_of(recalled)
            assert "cents" in text_of(recalled)

            first = await client.call_tool("sluice_forget", {"corpus": "docs", "document_id": "heap.md"})
            assert first.structured_content["would_remove"] == 1, text_of(first)
            confirm = {"confirm": first.structured_content["confirm"]}
            second = await client.call_tool("sluice_forget", {"corpus": "docs", "document_id": "heap.md", **confirm})
            assert second.structured_content["run_id"].startswith("run_")

            listed = await client.call_tool("sluice_list", {"what": "corpora"})
            if era != "stdio":  # the list over HTTP is another branch's
                assert "docs" in text_of(listed)
                corpora = await client.read_resource("sluice://corpora")
                assert "docs" in corpora.contents[0].text
            view = await client.read_resource(f"sluice://runs/{answer['run_id']}")
            assert json.loads(view.contents[0].text)["answer"]["citations"]
            document = await client.read_resource("sluice://documents/docs/lease.md")
            assert LEASE in document.contents[0].text
            with pytest.raises(Exception, match="no run"):
                await client.read_resource("sluice://runs/run_none")
            begun = await client.get_prompt("begin_work", work)
            assert "cents" in begun.messages[0].content.text

    with served(instance.context.settings) as address:
        asyncio.run(story(address))
