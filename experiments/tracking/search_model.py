"""The MLflow model of a configuration, loaded as code: nothing is pickled.

MLflow runs this file when the model is loaded, so that `mlflow.pyfunc.load_model` gives a model
whose `predict` searches. Artifacts: `config` (YAML), `index` (a folder), and the lexicon's files
where the configuration names some.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext

COLUMNS = ("query", "rank", "document_id", "chunk_id", "collection", "score", "text")

# MLflow wants the input annotated, and would then leave no room for a parameter. It sets filters of
# its own while it says so, which is why the warning is taken and not filtered.
with warnings.catch_warnings(record=True):

    class SearchModel(PythonModel):
        """Search the index that lies beside the model, under its configuration."""

        def load_context(self, context: PythonModelContext) -> None:
            """Open index and configuration."""
            from retriever import Index, Retriever
            from retriever.config import load_config

            artifacts = {name: Path(place) for name, place in context.artifacts.items()}
            config = load_config(artifacts["config"]).with_overrides(_lexicon(artifacts))
            self.retriever = Retriever.open(Index.open(artifacts["index"]), config)

        def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]
            """Return a data frame with a row a hit, best first, for every text of `query`.

            `model_input` is a data frame with the column `query`. `top_k` in `params` says how
            many hits; 0 means what the configuration says.
            """
            import pandas as pd

            retriever = self.retriever
            top_k = int((params or {}).get("top_k", 0))
            if top_k > 0:
                config = retriever.config.with_overrides({"trim.final_top_k": top_k})
                retriever = retriever.with_config(config)
            texts = [str(text) for text in model_input["query"]]
            rows = [
                (
                    result.query.text,
                    hit.rank,
                    hit.document_id,
                    hit.chunk_id,
                    hit.collection,
                    hit.score,
                    hit.text,
                )
                for result in (retriever.search_many(texts) if texts else ())
                for hit in result.hits
            ]
            return pd.DataFrame(rows, columns=list(COLUMNS))


def _lexicon(artifacts: Mapping[str, Path]) -> dict[str, Any]:
    """Return where the lexicon's files lie now."""
    overrides: dict[str, Any] = {}
    if "lexicon" in artifacts:
        overrides["plugins.biomed.lexicon.path"] = str(artifacts["lexicon"])
    overlays = sorted(name for name in artifacts if name.startswith("overlay_"))
    if overlays:
        overrides["plugins.biomed.lexicon.overlays"] = [str(artifacts[name]) for name in overlays]
    return overrides


set_model(SearchModel())
