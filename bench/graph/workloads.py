"""Small programs that use a library as its users do, so that its functions call each other."""

import contextlib
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def _json() -> None:
    import json

    text = json.dumps({"a": [1, 2.5, None, {"b": "c\n"}]}, indent=2, sort_keys=True)
    json.load(io.StringIO(text))
    json.JSONEncoder(indent=1, default=str).encode({"x": {1, 2}})
    json.JSONDecoder(object_pairs_hook=list).decode(text)


def _email() -> None:
    import email
    import email.policy
    from email.message import EmailMessage

    message = EmailMessage()
    message["Subject"] = "Grüße an alle"
    message["To"] = "Ann <a@example.org>, b@example.org"
    message.set_content("text\n" * 5)
    message.add_alternative("<p>html</p>", subtype="html")
    message.add_attachment(b"bytes", maintype="application", subtype="octet-stream", filename="x.bin")
    read = email.message_from_bytes(message.as_bytes(), policy=email.policy.default)
    str(read["To"].addresses)
    read.get_body().get_content()
    [part.get_content_type() for part in read.walk()]
    email.message_from_string(message.as_string()).get_payload()


def _argparse() -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="x", description="d", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--count", "-c", type=int, default=3, help="how many", choices=[1, 2, 3])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--a", action="store_true")
    group.add_argument("--b", action="append")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("run").add_argument("name", nargs="*")
    parser.parse_args(["-c", "2", "run", "x", "y"])
    parser.format_help()
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        parser.parse_args(["--a", "--b", "1"])


def _configuration() -> None:
    import configparser
    import tomllib

    parser = configparser.ConfigParser(interpolation=configparser.ExtendedInterpolation())
    parser.read_string("[a]\nx = 1\ny = ${x}\n[b]\nz: yes\n")
    parser.get("a", "y")
    parser.getboolean("b", "z", fallback=False)
    parser["b"]["new"] = "1"
    parser.write(io.StringIO())
    tomllib.loads('[a]\nb = [1, {c = 2}]\nd = 1979-05-27T07:32:00Z\n"e f" = """x\ny"""\n')


def _text() -> None:
    import difflib
    import gettext
    import pprint
    import shlex
    import string
    import textwrap

    list(difflib.unified_diff(["a", "b", "c"], ["a", "x", "c", "d"]))
    list(difflib.ndiff(["one\n", "two\n"], ["ore\n", "tree\n"]))
    difflib.get_close_matches("appel", ["ape", "apple", "peach"])
    difflib.HtmlDiff().make_table(["a"], ["b"])
    pprint.pformat({"a": list(range(40)), "b": {"c": ("d",) * 30}})
    shlex.split("a 'b c' d\\ e")
    string.Template("$a ${b}").safe_substitute(a=1)
    string.Formatter().format("{0[a]!r:>{w}}", {"a": 1}, w=9)
    textwrap.indent(textwrap.fill("word " * 50, width=30, max_lines=3), "> ")
    gettext.NullTranslations().gettext("a")


def _markup() -> None:
    import html
    import xml.dom.minidom
    import xml.etree.ElementTree as ElementTree
    import xml.sax
    from html.parser import HTMLParser

    class Parser(HTMLParser):
        pass

    Parser().feed("<!doctype html><p class=a>x &amp; <b>y</b><!-- c --><br/></p><script>1</script>")
    html.unescape("&lt;&notit;&#65;")
    tree = ElementTree.fromstring("<a><b x='1'>t</b><b/></a>")
    tree.findall(".//b[@x='1']")
    ElementTree.indent(tree)
    ElementTree.tostring(tree, encoding="unicode")
    document = xml.dom.minidom.parseString("<a xmlns:x='u'><x:b c='d'>t</x:b></a>")
    document.getElementsByTagName("a")[0].toprettyxml()
    xml.sax.parseString(b"<a b='c'>t</a>", xml.sax.ContentHandler())


def _code() -> None:
    import ast
    import dis
    import inspect
    import symtable
    import tokenize

    source = Path(ast.__file__).read_text()[:6_000].rpartition("\ndef ")[0]
    ast.unparse(ast.parse(source))
    ast.literal_eval("{'a': [1, (2, 3)], 'b': -1.5}")
    list(tokenize.generate_tokens(io.StringIO(source).readline))
    dis.dis(_text, file=io.StringIO())
    inspect.signature(_text)
    inspect.getsource(_json)
    inspect.signature(Path.open).bind(Path(), "r")
    symtable.symtable("def f(x): return x", "a", "exec").get_children()[0].get_parameters()


def _numbers() -> None:
    import _pydecimal
    import calendar
    import fractions
    import ipaddress
    import random
    import statistics
    import uuid

    _pydecimal.Decimal("1.25").sqrt() + _pydecimal.Decimal(2) ** 3
    str(_pydecimal.Decimal("1e10").quantize(_pydecimal.Decimal("0.1")))
    fractions.Fraction("1/3").limit_denominator(10) + 2
    statistics.quantiles([1, 2, 3, 9], n=4)
    statistics.stdev([1.5, 2.5, 9.0])
    statistics.NormalDist(1, 2).cdf(0.5)
    calendar.TextCalendar().formatyear(2024)
    calendar.HTMLCalendar().formatmonth(2024, 2)
    list(ipaddress.ip_network("10.0.0.0/29").subnets(new_prefix=30))
    str(ipaddress.ip_address("2001:db8::1").exploded)
    uuid.uuid3(uuid.NAMESPACE_DNS, "example.org")
    random.Random(1).sample(range(100), 5)


def _files() -> None:
    import csv
    import filecmp
    import fileinput
    import glob
    import mailbox
    import pathlib
    import plistlib
    import shelve
    import shutil
    import tarfile
    import zipfile

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "a").mkdir()
        (folder / "a" / "x.txt").write_text("one\ntwo\n")
        shutil.copytree(folder / "a", folder / "b")
        shutil.make_archive(str(folder / "made"), "zip", folder / "a")
        with zipfile.ZipFile(folder / "made.zip") as archive:
            archive.read("x.txt")
            archive.extractall(folder / "c")
        with tarfile.open(folder / "t.tar.gz", "w:gz") as tar:
            tar.add(folder / "a", arcname="a")
        with tarfile.open(folder / "t.tar.gz") as tar:
            tar.extractall(folder / "d", filter="data")
        list(folder.rglob("*.txt"))
        glob.glob(str(folder / "**" / "*.txt"), recursive=True)
        filecmp.dircmp(folder / "a", folder / "b").report_full_closure if False else filecmp.cmp(
            folder / "a" / "x.txt", folder / "b" / "x.txt"
        )
        plistlib.loads(plistlib.dumps({"a": [1, b"x"]}, fmt=plistlib.FMT_BINARY))
        plistlib.loads(plistlib.dumps({"a": [1, True]}))
        box = mailbox.mbox(folder / "box")
        box.add("From: a\n\nbody\n")
        box.flush()
        [entry["from"] for entry in box]
        with shelve.open(str(folder / "s")) as kept:
            kept["a"] = [1]
        list(csv.DictReader(io.StringIO("a,b\n1,2\n")))
        csv.Sniffer().sniff("a;b\n1;2\n")
        with fileinput.input(str(folder / "a" / "x.txt")) as lines:
            list(lines)


def _processes() -> None:
    import asyncio
    import concurrent.futures
    import logging
    import logging.config
    import logging.handlers
    import queue
    import sched
    import subprocess
    import traceback

    async def work() -> None:
        channel: asyncio.Queue[int] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            group.create_task(channel.put(1))
            group.create_task(channel.get())
        async with asyncio.timeout(1):
            await asyncio.gather(asyncio.sleep(0), asyncio.to_thread(len, "a"))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(1)", stdout=-1)
        await process.communicate()
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read()
        writer.close()
        server.close()

    asyncio.run(work())
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(len, ["a", "b"]))
        concurrent.futures.wait([pool.submit(len, "a")])
    logging.config.dictConfig(
        {
            "version": 1,
            "formatters": {"f": {"format": "%(levelname)s %(message)s"}},
            "handlers": {"m": {"class": "logging.StreamHandler", "formatter": "f", "stream": "ext://sys.stdout"}},
            "loggers": {"bench.x": {"handlers": ["m"], "level": "DEBUG", "propagate": False}},
        }
    )
    with contextlib.redirect_stdout(io.StringIO()):
        logging.getLogger("bench.x").warning("a %s", 1)
    logger = logging.getLogger("bench.y")
    logger.addHandler(logging.handlers.MemoryHandler(10, target=logging.NullHandler()))
    try:
        raise ValueError("x")
    except ValueError:
        logger.exception("failed")
        traceback.format_exc()
    sched.scheduler().enter(0, 1, len, ("a",))
    queue.PriorityQueue().put((1, "a"))
    subprocess.run([sys.executable, "-c", "pass"], check=True, capture_output=True)


def _network() -> None:
    import http.cookies
    import http.server
    import threading
    import urllib.parse
    import urllib.request
    import urllib.robotparser
    import xmlrpc.client

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *arguments: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
    with opener.open(f"http://127.0.0.1:{server.server_port}/") as response:
        response.read()
    server.shutdown()
    thread.join()
    server.server_close()
    http.cookies.SimpleCookie("a=1; b=2")["a"].OutputString()
    urllib.parse.urlsplit("http://u:p@h:80/p;x?q=1#f").geturl()
    urllib.parse.urljoin("http://a/b/c", "../d")
    urllib.parse.urlencode({"a": ["x", "y"]}, doseq=True)
    robots = urllib.robotparser.RobotFileParser()
    robots.parse(["User-agent: *", "Disallow: /x"])
    robots.can_fetch("a", "http://h/x")
    xmlrpc.client.loads(xmlrpc.client.dumps((1, {"a": [True]}), "m"))


def _testing() -> None:
    import doctest
    import unittest
    from unittest import mock

    class Case(unittest.TestCase):
        def setUp(self) -> None:
            self.addCleanup(len, "")

        def test_one(self) -> None:
            with self.assertRaises(ValueError), self.subTest(a=1):  # noqa: PT027
                int("x")
            self.assertEqual([1, 2], [1, 2])  # noqa: PT009
            self.assertIn(1, [1])  # noqa: PT009

        def test_two(self) -> None:
            self.assertDictEqual({"a": 1}, {"a": 2})  # noqa: PT009

    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Case)
    unittest.TextTestRunner(stream=io.StringIO(), verbosity=2).run(suite)
    fake = mock.MagicMock(return_value=3)
    fake.a.b(1, x=2)
    fake.a.b.assert_called_once_with(1, x=2)
    with mock.patch("os.getcwd", return_value="/x"):
        pass
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n2\n", {}, "t", None, 0)
    doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None)


def _objects() -> None:
    import copy
    import dataclasses
    import enum
    import functools
    import optparse
    import pickle
    import pickletools
    import typing

    @dataclasses.dataclass(order=True, frozen=True)
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list, compare=False)

    dataclasses.asdict(dataclasses.replace(Point(1), x=2))

    class Colour(enum.Flag):
        RED = enum.auto()
        BLUE = enum.auto()

    str(Colour.RED | Colour.BLUE)
    copy.deepcopy({"a": [Point(1)]})
    pickle._Unpickler(io.BytesIO(pickle._dumps([1, "a", {"b": (1.5, None)}]))).load()  # noqa: SLF001
    pickletools.dis(pickle.dumps([1]), out=io.StringIO())
    typing.get_type_hints(typing.NamedTuple("N", [("a", "int")]))

    @functools.singledispatch
    def told(value: object) -> str:
        return "object"

    told.register(int)(lambda value: "int")
    told(1)
    parser = optparse.OptionParser()
    parser.add_option("-a", action="store", type="int", help="h")
    parser.parse_args(["-a", "1", "rest"])
    parser.format_help()


def _fastapi() -> None:
    from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, Header, HTTPException
    from fastapi.security import HTTPBasic
    from fastapi.testclient import TestClient
    from pydantic import BaseModel
    from starlette.middleware.cors import CORSMiddleware
    from starlette.middleware.gzip import GZipMiddleware
    from starlette.responses import StreamingResponse

    class Item(BaseModel):
        name: str
        price: float = 1.0

    def page(size: int = 3) -> int:
        return size

    app, router = FastAPI(), APIRouter(prefix="/r")

    @router.get("/{key}")
    def read(key: int, size: int = Depends(page), agent: str | None = Header(None)) -> Item:
        if key == 9:
            raise HTTPException(404, "none")
        return Item(name=str(size))

    @app.post("/items")
    async def write(item: Item, later: BackgroundTasks) -> dict[str, Item]:
        later.add_task(len, "a")
        return {"item": item}

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(iter(["a", "b"]))

    @app.get("/secret")
    async def secret(user: object = Depends(HTTPBasic())) -> None: ...

    app.include_router(router)
    app.add_middleware(CORSMiddleware, allow_origins=["*"])
    app.add_middleware(GZipMiddleware, minimum_size=10)
    with TestClient(app) as client:
        client.get("/r/1?size=2", headers={"Origin": "x"})
        client.get("/r/9")
        client.get("/r/x")
        client.post("/items", json={"name": "a"})
        client.get("/stream")
        client.get("/secret", auth=("a", "b"))
        client.get("/openapi.json")
        client.get("/docs")


def _sqlalchemy() -> None:
    from sqlalchemy import ForeignKey, String, create_engine, func, select, text, update
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

    class Base(DeclarativeBase):
        pass

    class User(Base):
        __tablename__ = "user"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(String(30))
        posts = relationship("Post", back_populates="user", cascade="all, delete-orphan")

    class Post(Base):
        __tablename__ = "post"
        id: Mapped[int] = mapped_column(primary_key=True)
        user_id: Mapped[int] = mapped_column(ForeignKey("user.id"))
        user: Mapped[User] = relationship(back_populates="posts")

    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([User(name="a", posts=[Post(), Post()]), User(name="b")])
        session.commit()
        query = select(User).where(User.name.like("a%")).options(selectinload(User.posts)).order_by(User.id)
        user = session.scalars(query).one()
        user.name = "c"
        session.flush()
        session.execute(select(func.count(Post.id)).join(User).group_by(User.name)).all()
        session.execute(update(User).values(name="d"))
        session.delete(user)
        session.rollback()
    with engine.begin() as connection:
        connection.execute(text("select :a"), {"a": 1}).scalar_one()


def _rich() -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.logging import RichHandler
    from rich.markdown import Markdown
    from rich.panel import Panel
    from rich.pretty import Pretty
    from rich.progress import Progress
    from rich.syntax import Syntax
    from rich.table import Table
    from rich.tree import Tree

    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    table = Table("a", "b", title="t")
    table.add_row("[bold]1[/]", "2", style="red")
    tree = Tree("root")
    tree.add("leaf").add("deeper")
    console.print(Panel(table), tree, Pretty({"a": [1, 2]}), Markdown("# h\n\n* a\n* `b`\n\n> q"))
    console.print(Syntax("def f(): return 1", "python", line_numbers=True))
    console.rule("[red]x")
    with Progress(console=console, auto_refresh=False) as progress:
        progress.advance(progress.add_task("t", total=2))
    with Live(table, console=console, auto_refresh=False) as live:
        live.update(Panel("x"), refresh=True)
    RichHandler(console=console)
    try:
        {}["x"]
    except KeyError:
        console.print_exception(show_locals=True)


def _typer() -> None:
    import typer
    from typer.testing import CliRunner

    app, sub = typer.Typer(), typer.Typer(help="more")

    @app.command()
    def hello(name: str, count: int = typer.Option(1, min=0, help="how often")) -> None:
        typer.echo(name * count)
        typer.secho("x", fg="red")

    @sub.command("list")
    def listed(all: bool = False) -> None:
        raise typer.Exit(3)

    app.add_typer(sub, name="sub")
    runner = CliRunner()
    runner.invoke(app, ["hello", "a", "--count", "2"])
    runner.invoke(app, ["--help"])
    runner.invoke(app, ["hello", "--help"])
    runner.invoke(app, ["sub", "list"])
    runner.invoke(app, ["hello", "a", "--count", "-1"])


def _celery() -> None:
    from celery import Celery, chain, group

    app = Celery("x", broker="memory://", backend="cache+memory://")
    app.conf.update(task_always_eager=True, task_store_eager_result=True)

    @app.task(bind=True, max_retries=1)
    def add(self: object, x: int, y: int) -> int:
        return x + y

    add.delay(1, 2).get()
    chain(add.s(1, 2), add.s(3))().get()
    group(add.s(1, 1), add.s(2, 2))().get()
    with app.connection_for_write() as connection:
        queue = connection.SimpleQueue("q")
        queue.put({"a": 1})
        queue.get(timeout=1).ack()
        queue.close()


def _others() -> None:
    import attr
    import httpx
    import markdown_it
    import tomlkit
    import yaml
    from mako.template import Template
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    yaml.safe_load("a: [1, {b: c}]\nd: |\n  text\n")
    yaml.safe_dump({"a": [1, None], "b": {"c": 1.5}})
    document = tomlkit.parse("[a]\nb = 1 # c\n[[d]]\nx = [1, 2]\n")
    document["a"]["b"] = 2
    tomlkit.dumps(document)
    markdown_it.MarkdownIt().enable("table").render("# a\n\n* [b](c)\n\n|x|y|\n|-|-|\n|1|2|\n")
    highlight("def f(): return 'x'", PythonLexer(), HtmlFormatter(linenos=True))
    Template("% for x in xs:\n${x | h}\n% endfor\n").render(xs=[1, 2])
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json={"a": 1}))
    with httpx.Client(transport=transport, base_url="http://h", params={"a": "b"}) as client:
        client.post("/x", data={"a": "b"}).raise_for_status().json()
        client.get("/y", headers={"x": "y"}, auth=("a", "b")).read()
    attr.asdict(attr.make_class("C", ["x", "y"])(1, 2))


GROUPS: dict[str, tuple[Callable[[], None], ...]] = {
    "standard library": (
        *(_json, _email, _argparse, _configuration, _text, _markup, _code, _numbers, _files, _processes),
        *(_network, _testing, _objects),
    ),
    "fastapi": (_fastapi,),
    "sqlalchemy": (_sqlalchemy,),
    "rich": (_rich,),
    "typer": (_typer,),
    "celery": (_celery,),
    "others": (_others,),
}
"""Programs by what they exercise. Calls of every group were looked at while the rules were made."""
