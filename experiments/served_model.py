"""The code of an MLflow model: a configuration over an index, asked with texts.

MLflow runs this file when the model is loaded; nothing is pickled.
"""

from typing import Any

import mlflow


class ConfiguredRetriever(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined, unused-ignore]
    """Searches with one configuration; a query in, its hits out, best first."""

    def load_context(self, context: Any) -> None:
        """Open the index under the configuration that was saved."""
        from retriever import Retriever
        from retriever.config import load_config

        config = load_config(context.artifacts["config"])
        self._retriever = Retriever.open(context.model_config["index"], config)

    def predict(
        self, context: Any, model_input: list[str], params: dict[str, Any] | None = None
    ) -> list[list[dict[str, Any]]]:
        """Return the hits of each text."""
        return [
            [
                {
                    "rank": hit.rank,
                    "document_id": hit.document_id,
                    "chunk_id": hit.chunk_id,
                    "score": hit.score,
                    "text": hit.text,
                }
                for hit in result.hits
            ]
            for result in self._retriever.search_many(model_input)
        ]


mlflow.models.set_model(ConfiguredRetriever())
