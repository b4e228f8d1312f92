"""Encoders and their cache: real models, one of them built here, and processes that share."""

import json
import multiprocessing
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from worlds import HashedWords

from retriever.encoders.cache import CachedEncoder
from retriever.encoders.models import EncoderRecord, load_model_set
from retriever.encoders.text import TransformersEncoder
from retriever.files import InputError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "gefitinib", "inhibits", "egfr", "lung"]


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer BERT with random weights, saved as any model on a hub is."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(WORDS), intermediate_size=64, **sizes)
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def encoder_of(source: str, tmp_path: Path, **fields: object) -> TransformersEncoder:
    record = EncoderRecord.model_validate(
        {"name": "tiny", "source": source, "pooling": "mean", **fields}
    )
    return TransformersEncoder(record, model_set="mine", digests=tmp_path / "digests.json")


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_pooling_follows_the_record(tiny_bert: Path, tmp_path: Path, pooling: str) -> None:
    import torch
    from transformers import BertModel, BertTokenizerFast

    text = "gefitinib inhibits egfr"
    tokenizer = BertTokenizerFast.from_pretrained(tiny_bert)
    model = BertModel.from_pretrained(tiny_bert).eval()
    with torch.no_grad():
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
    pooled = states.mean(0) if pooling == "mean" else states[0]
    encoder = encoder_of(str(tiny_bert), tmp_path, pooling=pooling)
    assert encoder.encode_queries([text])[0] == pytest.approx(
        pooled / np.linalg.norm(pooled), abs=1e-5
    )


def test_padding_never_reaches_a_vector(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = encoder_of(str(tiny_bert), tmp_path)
    texts = ["egfr", "gefitinib inhibits egfr lung lung lung"]
    together = encoder.encode_documents(texts)
    alone = np.concatenate([encoder.encode_documents([text]) for text in texts])
    assert together == pytest.approx(alone, abs=1e-5)


def test_query_vector_is_bit_for_bit_the_same_alone_and_in_a_batch(
    tiny_bert: Path, tmp_path: Path
) -> None:
    encoder = encoder_of(str(tiny_bert), tmp_path)
    batch = encoder.encode_queries(["egfr lung", "gefitinib inhibits egfr lung"])
    assert np.array_equal(batch[1:], encoder.encode_queries(["gefitinib inhibits egfr lung"]))


def test_length_limit_cuts_the_text(tiny_bert: Path, tmp_path: Path) -> None:
    encoder = encoder_of(str(tiny_bert), tmp_path, query_tokens=8)
    long = encoder.encode_queries(["egfr " * 6 + "lung lung", "egfr " * 6 + "gefitinib"])
    assert np.array_equal(long[0], long[1])


def test_token_spans_are_characters_of_the_text(tiny_bert: Path, tmp_path: Path) -> None:
    text = "gefitinib  inhibits egfr"
    spans = encoder_of(str(tiny_bert), tmp_path).token_spans([text])[0]
    assert [text[a:b] for a, b in spans] == ["gefitinib", "inhibits", "egfr"]


def test_fingerprint_changes_when_weights_or_pooling_do(tiny_bert: Path, tmp_path: Path) -> None:
    import shutil

    changed = tmp_path / "changed"
    shutil.copytree(tiny_bert, changed)
    weights = bytearray((changed / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (changed / "model.safetensors").write_bytes(weights)
    prints = {
        encoder_of(str(tiny_bert), tmp_path).fingerprint,
        encoder_of(str(tiny_bert), tmp_path, pooling="cls").fingerprint,
        encoder_of(str(changed), tmp_path).fingerprint,
    }
    assert len(prints) == 3


def test_missing_model_is_one_clear_line(tmp_path: Path) -> None:
    encoder = encoder_of(str(tmp_path / "nowhere"), tmp_path)
    with pytest.raises(InputError, match=r"the model tiny .* is neither a folder here nor"):
        encoder.fingerprint  # noqa: B018


def test_missing_package_names_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pip install no-such-model"):
        encoder_of("package:no_such_model", tmp_path).encode_queries(["egfr"])


def test_pickled_weights_are_not_read(tiny_bert: Path, tmp_path: Path) -> None:
    import shutil

    import torch

    folder = tmp_path / "pickled"
    shutil.copytree(tiny_bert, folder)
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be loaded"):
        encoder_of(str(folder), tmp_path).encode_queries(["egfr"])


def test_shipped_model_knows_what_is_near(tmp_path: Path) -> None:
    record = load_model_set("embedded").collections["eagle_text"]
    encoder = TransformersEncoder(record, model_set="embedded", digests=tmp_path / "d.json")
    query = encoder.encode_queries(["heart attack"])[0]
    near, far = encoder.encode_documents(["myocardial infarction", "tyrosine kinase inhibitor"])
    assert query @ near > query @ far + 0.2
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\n", "collections"),
        ("name: x\ncollections: {a: {name: n, source: s, pooling: max}}\n", "pooling"),
        ("name: x\ncollections: {a: {name: n, source: s, pooling: cls, k: 1}}\n", r"a\.k"),
    ],
)
def test_model_set_is_refused_when_it_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "set.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        load_model_set(str(tmp_path / "set.yaml"))


def test_cache_gives_the_same_vectors_without_the_model(tmp_path: Path) -> None:
    first = CachedEncoder(HashedWords(), tmp_path)
    vectors = first.encode(["a b", "c", "a b"], "document")
    assert (first.computed, first.reused) == (2, 0)
    model = HashedWords()
    again = CachedEncoder(model, tmp_path)
    assert np.array_equal(again.encode(["c", "a b", "new"], "document")[:2], vectors[[1, 0]])
    assert (again.computed, again.reused, model.calls) == (1, 2, 1)


def test_cache_keeps_queries_and_documents_apart(tmp_path: Path) -> None:
    encoder = CachedEncoder(HashedWords(), tmp_path)
    encoder.encode(["a"], "query")
    encoder.encode(["a"], "document")
    assert encoder.computed == 2


def test_cache_reports_progress_for_every_text(tmp_path: Path) -> None:
    done: list[int] = []
    encoder = CachedEncoder(HashedWords(), tmp_path)
    encoder.encode(["a"], "document")
    encoder.encode([f"t{i % 600}" for i in range(700)] + ["a"], "document", done.append)
    assert sum(done) == 701


def test_damaged_cache_names_the_file_to_delete(tmp_path: Path) -> None:
    encoder = CachedEncoder(HashedWords(), tmp_path)
    encoder.encode(["a"], "document")
    (file,) = tmp_path.glob("*.sqlite")
    file.write_bytes(b"this is no database" * 100)
    with pytest.raises(InputError, match="delete this file"):
        encoder.encode(["a"], "document")


def test_vector_of_another_length_in_the_cache_is_refused(tmp_path: Path) -> None:
    encoder = CachedEncoder(HashedWords(), tmp_path)
    encoder.encode(["a", "b"], "document")
    (file,) = tmp_path.glob("*.sqlite")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE vectors SET value = x'00000000' WHERE rowid = 1")
    connection.close()
    with pytest.raises(InputError, match="different lengths"):
        encoder.encode(["a", "b"], "document")


def fill(folder: Path, start: int) -> None:
    encoder = CachedEncoder(HashedWords(), folder)
    encoder.encode([f"word {i}" for i in range(start, start + 900)], "document")


def test_cache_serves_processes_at_the_same_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=fill, args=(tmp_path, 300 * i)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    encoder = CachedEncoder(HashedWords(), tmp_path)
    encoder.encode([f"word {i}" for i in range(1800)], "document")
    assert (encoder.computed, encoder.reused) == (0, 1800)


def test_noted_digest_is_reused_until_the_file_changes(tiny_bert: Path, tmp_path: Path) -> None:
    first = encoder_of(str(tiny_bert), tmp_path).fingerprint
    noted = json.loads((tmp_path / "digests.json").read_text())
    assert any(key.startswith(str(tiny_bert / "model.safetensors")) for key in noted)
    (tmp_path / "digests.json").write_text("damaged")
    assert encoder_of(str(tiny_bert), tmp_path).fingerprint == first


def test_fingerprint_needs_no_folder_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    noted = encoder_of(str(tmp_path / "model"), tmp_path).fingerprint
    (tmp_path / "file").write_text("no folder can be made here, whoever asks")
    assert encoder_of(str(tmp_path / "model"), tmp_path / "file").fingerprint == noted
