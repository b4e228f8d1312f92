"""The cross-encoder: a real one, small and random, built here and saved as on a hub."""

from pathlib import Path

import numpy as np
import pytest

from retriever.encoders.cross import TransformersCrossEncoder
from retriever.encoders.models import EncoderRecord
from retriever.files import InputError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "gefitinib", "inhibits", "egfr", "lung"]


def save_tiny_bert(folder: Path, labels: int) -> Path:
    """A two-layer classifier with random weights, large enough to tell texts apart."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(
        vocab_size=len(WORDS),
        intermediate_size=64,
        num_labels=labels,
        initializer_range=0.5,
        **sizes,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_bert(tmp_path_factory.mktemp("cross") / "one", 1)


def cross_of(folder: Path, tmp_path: Path, tokens: int = 512) -> TransformersCrossEncoder:
    record = EncoderRecord(name="tiny", source=str(folder), document_tokens=tokens)
    return TransformersCrossEncoder(record, model_set="mine", digests=tmp_path / "digests.json")


def test_logit_is_the_models_own_when_query_and_text_stand_in_this_order(
    tiny: Path, tmp_path: Path
) -> None:
    import torch
    from transformers import BertForSequenceClassification, BertTokenizerFast

    tokenizer = BertTokenizerFast.from_pretrained(tiny)
    model = BertForSequenceClassification.from_pretrained(tiny).eval()

    def logit(first: str, second: str) -> float:
        inputs = tokenizer(first, second, return_tensors="pt")
        with torch.no_grad():
            return float(model(**inputs).logits[0, 0])

    query, text = "egfr", "gefitinib inhibits egfr"
    found = cross_of(tiny, tmp_path).logits(query, [text])
    assert found.shape == (1,)
    assert found[0] == pytest.approx(logit(query, text), abs=1e-5)
    assert abs(logit(query, text) - logit(text, query)) > 1e-3


def test_text_is_cut_when_it_is_longer_than_2048_characters(tiny: Path, tmp_path: Path) -> None:
    cross = cross_of(tiny, tmp_path)
    # 10 characters a word: 204 words make 2,040, "inhibits" ends at character 2,048
    head = "gefitinib " * 204
    same = cross.logits("egfr", [f"{head}inhibits", f"{head}inhibits lung lung egfr"])
    assert same[0] == pytest.approx(same[1], abs=1e-5)
    other = cross.logits("egfr", [f"{head}inhibits", f"{head}egfr"])
    assert abs(other[0] - other[1]) > 1e-4


def test_pair_is_cut_when_it_has_more_tokens_than_the_record_allows(
    tiny: Path, tmp_path: Path
) -> None:
    # [CLS] egfr [SEP] and [SEP] leave 4 of 8 tokens
    cross = cross_of(tiny, tmp_path, tokens=8)
    found = cross.logits("egfr", ["lung " * 4 + "egfr egfr", "lung " * 4, "lung " * 3])
    assert found[0] == pytest.approx(found[1], abs=1e-5)
    assert abs(found[1] - found[2]) > 1e-4


def test_logits_follow_their_texts_when_the_batch_is_in_another_order(
    tiny: Path, tmp_path: Path
) -> None:
    cross = cross_of(tiny, tmp_path)
    # 40 texts: more than one batch of 32, lengths mixed
    texts = [" ".join(WORDS[5 + (i * j) % 4] for j in range(1 + i % 7)) for i in range(40)]
    straight = cross.logits("gefitinib lung", texts)
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = cross.logits("gefitinib lung", [texts[i] for i in order])
    assert shuffled == pytest.approx(straight[order], abs=1e-5)
    alone = np.concatenate([cross.logits("gefitinib lung", [text]) for text in texts])
    assert straight == pytest.approx(alone, abs=1e-5)
    assert len(set(straight.round(4).tolist())) > 5


def test_no_text_gives_no_logit(tiny: Path, tmp_path: Path) -> None:
    assert cross_of(tiny, tmp_path).logits("egfr", []).shape == (0,)


def test_model_is_refused_when_it_gives_two_scores_a_pair(tmp_path: Path) -> None:
    folder = save_tiny_bert(tmp_path / "two", 2)
    with pytest.raises(InputError, match="tiny gives 2 scores a pair, expected 1"):
        cross_of(folder, tmp_path).logits("egfr", ["lung"])


def test_model_is_one_clear_line_when_it_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the model tiny .* is neither a folder here nor"):
        cross_of(tmp_path / "nowhere", tmp_path).logits("egfr", ["lung"])
